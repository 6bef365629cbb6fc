/**
 * Bytes of a node's event stream become the data of its events, however the bytes were cut into pieces.
 * Comments are skipped. What is held at any time is bounded by the size of one event.
 */
import { createParser, type EventSourceParser } from 'eventsource-parser';
import { NodeFailure } from '../core/node-failure.ts';

/** Characters of one event, or of one line that has not ended. */
export const eventCharactersMax = 1024 * 1024;

export interface SseHandlers {
  /** The data of one event. */
  readonly onData: (data: string) => void;
  /** The stream can be read no further; nothing comes after it. */
  readonly onFailure: (failure: NodeFailure) => void;
}

export class SseReader {
  readonly #decoder = new TextDecoder();
  readonly #handlers: SseHandlers;
  readonly #parser: EventSourceParser;
  #failed = false;

  constructor(handlers: SseHandlers) {
    this.#handlers = handlers;
    this.#parser = createParser({
      maxBufferSize: eventCharactersMax,
      onEvent: ({ event, data }) => this.#take(event, data),
      onError: ({ type, field }) => {
        if (type === 'max-buffer-size-exceeded') this.#fail(tooLarge());
        // Some builds of llama.cpp report an error as a field of its own, where others write `data`.
        if (field === 'error') this.#fail(reportedError());
      },
    });
  }

  /** Takes any number of bytes; calls the handlers before it returns. */
  push(bytes: Uint8Array): void {
    if (this.#failed) return;
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }));
  }

  #take(event: string | undefined, data: string): void {
    if (this.#failed) return;
    if (event === 'error') this.#fail(reportedError());
    else if (data.length > eventCharactersMax) this.#fail(tooLarge());
    else this.#handlers.onData(data);
  }

  #fail(failure: NodeFailure): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#handlers.onFailure(failure);
  }
}

function tooLarge(): NodeFailure {
  return new NodeFailure('too_large', 'one event of the stream is too large');
}

function reportedError(): NodeFailure {
  return new NodeFailure('error', 'the node reported an error in its stream');
}
