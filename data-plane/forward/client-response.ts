/**
 * The client's side of an answer, over the raw response of the HTTP server.
 * It promises: a complete answer goes out in one write; what a stream is given within one turn goes out in one write;
 * `end` reports whether the end was handed to a client still connected; and an early end is never a clean one.
 * A client that stops reading holds its node back, and is cut off after a bounded wait.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { waits } from '../../shared/runtime/waits.ts';

export interface ClientListener {
  /** The connection is gone before the answer has ended. */
  onGone(): void;
  /** The client reads slower than it is given; hold back until `onDrained`. */
  onBlocked(): void;
  onDrained(): void;
}

export interface ClientResponseOptions {
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** A client that takes no byte for so long is cut off. */
  readonly stallMs?: number;
  /** The same after an early end, while what was delivered is still on its way; nothing waits for that client then. */
  readonly lastBytesMs?: number;
}

export class ClientResponse {
  readonly #response: ServerResponse;
  readonly #socket: Socket;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #stallMs: number;
  readonly #lastBytesMs: number;
  #listener: ClientListener | undefined;
  /**
   * Never a function literal: V8 allocates one that is assigned to a property in old space, from where it keeps its whole
   * request alive until the next full collection.
   */
  #resolveEnd: ((delivered: boolean) => void) | undefined;
  #pending = '';
  #flushPlanned = false;
  /** The head and the first chunk were given to the server, which has the connection at once or in its turn. */
  #isHeadSent = false;
  #stallWatched = false;
  #startedMs: number | undefined;
  #ended = false;
  #gone: boolean;

  constructor(response: ServerResponse, options: ClientResponseOptions) {
    const { headers, stallMs = waits.clientReads.ms, lastBytesMs = waits.clientLastBytes.ms } = options;
    this.#response = response;
    // Of the request, because a pipelined response has none of its own until its turn.
    this.#socket = response.req.socket;
    this.#headers = headers;
    this.#stallMs = stallMs;
    this.#lastBytesMs = lastBytesMs;
    this.#gone = this.#socket.destroyed || response.destroyed;
    watch(this.#socket, this.#onClose);
  }

  /** The connection was lost before the answer had ended. */
  get gone(): boolean {
    return this.#gone;
  }

  /** A byte of an answer went out, or is about to. */
  get started(): boolean {
    return this.#startedMs !== undefined;
  }

  /** When that was, monotonic ms; undefined before. */
  get startedMs(): number | undefined {
    return this.#startedMs;
  }

  /** Replaces the listener. */
  listen(listener: ClientListener | undefined): void {
    this.#listener = listener;
  }

  /** A complete JSON answer with status 200. Resolves as `end` does. */
  answer(body: string | Uint8Array): Promise<boolean> {
    this.#startedMs = performance.now();
    if (this.#gone || this.#ended) return Promise.resolve(false);
    const headers = ['content-type', 'application/json', 'content-length', String(Buffer.byteLength(body))];
    for (const name in this.#headers) headers.push(name, this.#headers[name] as string);
    this.#response.writeHead(200, headers);
    return this.#finish(body);
  }

  /** Chooses the status 200. The head goes out with the first bytes. */
  startStream(): void {
    this.#startedMs = performance.now();
    if (this.#gone || this.#ended) return;
    this.#socket.setNoDelay(true);
    this.#response.on('drain', this.#onDrain);
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
      ...this.#headers,
    });
  }

  write(text: string): void {
    if (this.#gone || this.#ended) return;
    this.#pending += text;
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    queueMicrotask(this.#flush);
  }

  /**
   * Ends a stream cleanly. Resolves when the last byte has been handed to the system for a client still connected, or
   * with false when the connection went first.
   */
  end(): Promise<boolean> {
    if (this.#gone || this.#ended) return Promise.resolve(false);
    const rest = this.#pending;
    this.#pending = '';
    return this.#finish(rest);
  }

  /** An early end: what was delivered is still sent, then the connection is destroyed, without the end of the body. */
  destroy(): void {
    if (this.#gone || this.#ended) return;
    this.#flush();
    this.#ended = true;
    this.#stallAfter(this.#lastBytesMs);
    this.#socket.destroySoon();
  }

  /** Releases a connection that was not answered here. */
  release(): void {
    this.#listener = undefined;
    unwatch(this.#socket, this.#onClose);
  }

  #finish(text: string | Uint8Array): Promise<boolean> {
    this.#ended = true;
    return new Promise((resolve) => {
      this.#resolveEnd = resolve;
      this.#response.end(text, this.#onFinish);
      if (this.#resolveEnd !== undefined && this.#socket.writableLength > 0) this.#stallAfter(this.#stallMs);
    });
  }

  #settleEnd(delivered: boolean): void {
    const resolve = this.#resolveEnd;
    if (resolve === undefined) return;
    this.#resolveEnd = undefined;
    if (this.#stallWatched) this.#socket.off('timeout', this.#onStall);
    this.release();
    resolve(delivered);
  }

  /** The server calls this also where the last write failed, so the socket is asked. */
  readonly #onFinish = (): void => {
    this.#settleEnd(!this.#socket.destroyed && this.#socket.errored === null);
  };

  readonly #onClose = (): void => {
    if (this.#stallWatched) this.#socket.setTimeout(0, this.#onStall);
    this.#settleEnd(false);
    if (this.#gone || this.#ended) {
      this.release();
      return;
    }
    this.#gone = true;
    this.#pending = '';
    const listener = this.#listener;
    this.release();
    listener?.onGone();
  };

  readonly #flush = (): void => {
    this.#flushPlanned = false;
    const text = this.#pending;
    this.#pending = '';
    if (text === '' || this.#gone || this.#ended) return;
    if (this.#send(text)) return;
    this.#stallAfter(this.#stallMs);
    this.#listener?.onBlocked();
  };

  /**
   * False where the client is behind. The server writes a chunk of a body as four strings; with the head out, this writes it
   * as one, which is most of what an event of a stream costs.
   */
  #send(text: string): boolean {
    const response = this.#response;
    const isOpen = this.#isHeadSent && response.chunkedEncoding && response.socket === this.#socket;
    if (!isOpen || response.writableLength > this.#socket.writableLength) {
      this.#isHeadSent = true;
      return response.write(text);
    }
    const isTaken = this.#socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
    if (!isTaken) this.#socket.once('drain', this.#onDrain);
    return isTaken;
  }

  readonly #onDrain = (): void => {
    if (this.#gone || this.#ended) return;
    this.#socket.setTimeout(0, this.#onStall);
    this.#listener?.onDrained();
  };

  readonly #onStall = (): void => {
    this.#socket.destroy();
  };

  /** The socket's own timer counts only the time without progress, of large writes too; it may take twice as long. */
  #stallAfter(ms: number): void {
    if (this.#stallWatched) this.#socket.setTimeout(0, this.#onStall);
    this.#stallWatched = true;
    this.#socket.setTimeout(ms, this.#onStall);
  }
}

const watchers = Symbol('answers that wait for the end of a connection');

/** One listener serves all answers of a connection, instead of one that comes and goes with each. */
interface WatchedSocket extends Socket {
  /** Almost always one. A Set would build a new table every few requests. */
  [watchers]?: (() => void)[];
}

function watch(socket: WatchedSocket, onClose: () => void): void {
  const known = socket[watchers];
  if (known !== undefined) {
    known.push(onClose);
    return;
  }
  const all = [onClose];
  socket[watchers] = all;
  socket.on('close', () => {
    for (const each of [...all]) each();
  });
}

function unwatch(socket: WatchedSocket, onClose: () => void): void {
  const all = socket[watchers];
  const index = all?.indexOf(onClose) ?? -1;
  if (index === 0 && all?.length === 1) all.pop();
  else if (index >= 0) all?.splice(index, 1);
}
