/**
 * Reads server-sent events from a node, however the bytes are split, and holds at most one event in memory. Comments and
 * events that are not part of a response only show that the node is alive.
 */
import { createParser, type EventSourceParser } from 'eventsource-parser';
import { NodeFailure } from './node-failure.ts';

/** Maximum number of characters in one event, or in one line that has not ended. */
export const eventCharactersMax = 1024 * 1024;

export interface SseHandlers {
  readonly onData: (data: string) => void;
  /** Called for a comment, or for an event that is not part of a response. Engines send both to show that they are alive. */
  readonly onComment?: () => void;
  /** Called if the stream cannot be read any further. After that, no handler is called. */
  readonly onFailure: (failure: NodeFailure) => void;
}

export class SseReader {
  readonly #decoder = new TextDecoder();
  readonly #handlers: SseHandlers;
  readonly #parser: EventSourceParser;
  #failed = false;
  /** Whether the bytes so far end with a complete character, so that the decoder holds no bytes back. */
  #hasWholeCharacters = false;
  /** Whether the text so far ends with a complete event, so that the parser holds no text back. */
  #hasWholeEvents = false;
  #hasEnded = false;

  constructor(handlers: SseHandlers) {
    this.#handlers = handlers;
    this.#parser = createParser({
      maxBufferSize: eventCharactersMax,
      onEvent: ({ event, data }) => this.#take(event, data),
      onComment: () => this.#handlers.onComment?.(),
      onError: ({ type, field }) => {
        if (type === 'max-buffer-size-exceeded') this.#fail(tooLarge());
        // Some builds of llama.cpp send an error in a field named `error` instead of `data`.
        if (field === 'error') this.#fail(reportedError());
      },
    });
  }

  /** Reads some bytes, and calls the handlers for them before it returns. */
  push(bytes: Uint8Array): void {
    if (this.#failed || bytes.length === 0) return;
    const text = this.#decode(bytes);
    const rest = this.#hasWholeEvents && !text.includes('\r') ? this.#takePlain(text) : text;
    if (rest === '') return;
    this.#parser.feed(rest);
    this.#hasWholeEvents = rest.endsWith('\n\n');
  }

  /** Ends the stream. A last event without a blank line after it is dropped as incomplete, unless it is `[DONE]`. */
  end(): void {
    if (this.#failed) return;
    this.#hasEnded = true;
    this.#parser.feed('\n\n');
  }

  /** Decodes UTF-8. Avoids the slow stream decoder if neither a byte order mark nor a split character is possible. */
  #decode(bytes: Uint8Array): string {
    const isWhole = (bytes[bytes.length - 1] as number) < 0x80;
    const text =
      isWhole && this.#hasWholeCharacters && Buffer.isBuffer(bytes)
        ? bytes.toString('utf8')
        : this.#decoder.decode(bytes, { stream: true });
    this.#hasWholeCharacters = isWhole;
    return text;
  }

  /** Fast path for events with only one `data` line. Returns the text from the first event on that is not of this form. */
  #takePlain(text: string): string {
    let at = 0;
    while (at < text.length) {
      const end = text.indexOf('\n', at);
      const start = at + 'data: '.length;
      if (end <= start || text.charCodeAt(end + 1) !== 0x0a || !text.startsWith('data: ', at)) break;
      this.#take(undefined, text.slice(start, end));
      at = end + 2;
    }
    return at === 0 ? text : text.slice(at);
  }

  #take(event: string | undefined, data: string): void {
    if (this.#failed || (this.#hasEnded && data.trim() !== '[DONE]')) return;
    if (event === 'error') this.#fail(reportedError());
    else if (data.length > eventCharactersMax) this.#fail(tooLarge());
    else if (isForeign(event, data)) this.#handlers.onComment?.();
    else this.#handlers.onData(data);
  }

  #fail(failure: NodeFailure): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#handlers.onFailure(failure);
  }
}

/** Whether an event does not belong to a response, because it has no data or is a named event without a chunk. */
function isForeign(event: string | undefined, data: string): boolean {
  if (data.trim() === '') return true;
  return event !== undefined && event !== '' && event !== 'message' && !/^\s*(?:\{|\[DONE\])/.test(data);
}

function tooLarge(): NodeFailure {
  return new NodeFailure('too_large', 'one event of the stream is too large');
}

function reportedError(): NodeFailure {
  return new NodeFailure('error', 'the node reported an error in its stream');
}
