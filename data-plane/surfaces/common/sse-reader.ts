/**
 * Parses a node's event stream into the data of its events, at most one in memory, however the bytes were split. Comments and
 * other events only count as signs of life.
 */
import { createParser, type EventSourceParser } from 'eventsource-parser';
import { NodeFailure } from './node-failure.ts';

/** Maximum number of characters in one event, or in one line that has not ended. */
export const eventCharactersMax = 1024 * 1024;

export interface SseHandlers {
  /** Called with the data of one event. */
  readonly onData: (data: string) => void;
  /** Called for a comment or for an event without any part of an answer. Engines send both as signs of life. */
  readonly onComment?: () => void;
  /** Called if the stream cannot be read any further. No other call follows. */
  readonly onFailure: (failure: NodeFailure) => void;
}

export class SseReader {
  readonly #decoder = new TextDecoder();
  readonly #handlers: SseHandlers;
  readonly #parser: EventSourceParser;
  #failed = false;
  /** Whether all bytes so far are complete characters, so that the decoder holds nothing back. */
  #hasWholeCharacters = false;
  /** Whether all text so far is complete events, so that the parser holds nothing back. */
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
        // Some builds of llama.cpp send an error as a field of its own rather than as `data`.
        if (field === 'error') this.#fail(reportedError());
      },
    });
  }

  /** Takes any number of bytes and calls the handlers before it returns. */
  push(bytes: Uint8Array): void {
    if (this.#failed || bytes.length === 0) return;
    const text = this.#decode(bytes);
    const rest = this.#hasWholeEvents && !text.includes('\r') ? this.#takePlain(text) : text;
    if (rest === '') return;
    this.#parser.feed(rest);
    this.#hasWholeEvents = rest.endsWith('\n\n');
  }

  /** Ends the body. The terminator counts even without its blank line; any other last event may be cut and is dropped. */
  end(): void {
    if (this.#failed) return;
    this.#hasEnded = true;
    this.#parser.feed('\n\n');
  }

  /** Decodes without the costly stream decoder if there is no byte order mark and no split character. */
  #decode(bytes: Uint8Array): string {
    const isWhole = (bytes[bytes.length - 1] as number) < 0x80;
    const text =
      isWhole && this.#hasWholeCharacters && Buffer.isBuffer(bytes)
        ? bytes.toString('utf8')
        : this.#decoder.decode(bytes, { stream: true });
    this.#hasWholeCharacters = isWhole;
    return text;
  }

  /** Handles events of a single `data` line without the parser. Returns the text from the first different event on. */
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

/** Whether an event is not part of an answer: it has no data, or it has a name and its data is not a chunk. */
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
