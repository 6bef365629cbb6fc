/**
 * A request and its answer, for all request handlers. They are fields of one object, because a connection has one exchange at
 * a time and calls its methods directly.
 */
import { STATUS_CODES } from 'node:http';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { httpFault } from '../../shared/runtime/http-fault.ts';
import type { BodyFlow, BodySink, BodySource } from './body.ts';
import { dateLine } from './date-line.ts';
import type { ParsedRequest } from './message-head.ts';

export interface AnswerListener {
  /** The connection was lost before the answer ended. */
  onGone(): void;
  /** The client reads more slowly than the answer is written. Stop writing until `onDrained`. */
  onBlocked(): void;
  onDrained(): void;
}

/** Alternating names and values. */
export type Fields = readonly string[];

/**
 * The answer to one request. A complete answer is sent in one write, and so is everything that a stream receives within one
 * turn. The caller learns whether the end was handed to a client that was still connected. An early end never looks like a
 * clean one. A client that stops reading is cut off after a bounded time; without a client, every method does nothing.
 */
export interface ClientAnswer {
  /** Whether the connection was lost before the answer ended. */
  readonly isGone: boolean;
  /** Time when the first byte was sent or about to be sent, monotonic ms. Undefined before. */
  readonly startedMs: number | undefined;
  /** Sends a complete answer, without its body for HEAD. Does nothing if an answer has begun. Resolves as `end` does. */
  whole(
    status: number,
    type: string | undefined,
    fields: Fields,
    body: string | Uint8Array | undefined,
  ): Promise<boolean>;
  /** Begins a stream. The head is sent with the first bytes. */
  start(type: string, fields: Fields): void;
  write(text: string): void;
  /** Ends a stream cleanly. Resolves with whether the kernel accepted the last byte while the client was connected. */
  end(): Promise<boolean>;
  /** Ends the answer early: sends the bytes already written, then destroys the connection without an end of the body. */
  destroy(): void;
  /** Replaces the listener. */
  listen(listener: AnswerListener | undefined): void;
  /** Adds a header field to every answer to this request that does not set the field itself. */
  setField(name: string, value: string): void;
}

/** The operations that an exchange needs from its connection. */
export interface ExchangeConnection {
  readonly peer: string | undefined;
  /** Whether every answer that begins from now on closes the connection. */
  readonly isEnding: boolean;
  readonly keepAliveSeconds: number;
  /** Stops reading until `resumeReading`. */
  hold(): void;
  resumeReading(): void;
  /** Returns false if the client is falling behind. */
  write(bytes: string): boolean;
  /** Writes the last bytes of the answer. The exchange's `onHanded` follows, unless the connection is lost. */
  writeLast(head: string, body: Uint8Array | undefined): void;
  /** Destroys the connection once the written bytes are on their way. */
  destroySoon(): void;
  destroy(): void;
}

export class Exchange implements BodySource, BodyFlow, ClientAnswer {
  /** The head, which is complete before the exchange begins. */
  readonly head: ParsedRequest;
  readonly #connection: ExchangeConnection;
  #sink: BodySink | undefined;
  /** Body bytes that arrived before the body was requested. */
  #early: Buffer | undefined;
  #isWhole = false;
  #isDiscarded = false;
  /** Whether the sink is about to receive the early bytes, on the next tick. */
  #isDue = false;
  #gone: AbortController | undefined;
  #isGone = false;
  #listener: AnswerListener | undefined;
  #resolveEnd: ((delivered: boolean) => void) | undefined;
  /** Header fields of every answer: alternating names and values. */
  #fields: string[] | undefined;
  #isLast: boolean;
  #startedMs: number | undefined;
  #ended = false;
  #isStream = false;
  /** Head of a stream, until it is sent. */
  #unsentHead = '';
  #pending = '';
  #isPlanned = false;
  #cut: Refusal | undefined;

  constructor(connection: ExchangeConnection, head: ParsedRequest) {
    this.#connection = connection;
    this.head = head;
    this.#isLast = head.isLast || head.fault !== undefined;
  }

  /** Reason why the head is not unambiguous HTTP, as a sentence. */
  get fault(): string | undefined {
    return this.head.fault === undefined ? undefined : httpFault(this.head);
  }

  /** Address of the connection's peer. */
  get peer(): string | undefined {
    return this.#connection.peer;
  }

  get answer(): ClientAnswer {
    return this;
  }

  get declaredBytes(): number {
    return this.head.framing === 'chunked' ? Number.POSITIVE_INFINITY : this.head.bodyBytes;
  }

  /** Whether the whole request has been read. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Requests the body. A client that waits for it gets 100 Continue. */
  body(sink: BodySink): BodyFlow {
    this.#sink = sink;
    if (this.head.expectsContinue && !this.#isWhole && this.#early === undefined)
      this.#connection.write('HTTP/1.1 100 Continue\r\n\r\n');
    this.#isDue = true;
    process.nextTick(deliverEarly, this);
    if (!this.#isWhole) this.#connection.resumeReading();
    return this;
  }

  hold(): void {
    if (!this.#isWhole) this.#connection.hold();
  }

  letGo(): void {
    if (!this.#isWhole) this.#connection.resumeReading();
  }

  /** Reads and drops the rest of a refused request's body, up to a bound, so that the client can read the refusal. */
  discardBody(): void {
    this.#isDiscarded = true;
    this.#early = undefined;
    if (!this.#isWhole) this.#connection.resumeReading();
  }

  /** Whether part of the body has arrived, more will follow, and nobody has requested it yet. */
  get isUnasked(): boolean {
    return this.#early !== undefined && this.#sink === undefined && !this.#isWhole;
  }

  onPiece(piece: Buffer): void {
    if (this.#isDiscarded || this.#ended) return;
    if (this.#sink !== undefined && !this.#isDue) this.#sink.onPiece(piece);
    else this.#early = this.#early === undefined ? piece : Buffer.concat([this.#early, piece]);
  }

  onWhole(): void {
    this.#isWhole = true;
    if (!this.#isDue) this.#endBody();
  }

  deliverEarly(): void {
    const early = this.#early;
    this.#isDue = false;
    this.#early = undefined;
    if (early !== undefined) this.#sink?.onPiece(early);
    if (this.#isWhole) this.#endBody();
    // The client may have left while the request waited for its turn.
    else if (this.isGone) this.#sink?.onClose();
  }

  /** Aborted with ClientGone when the connection is lost. */
  get gone(): AbortSignal {
    if (this.#gone === undefined) {
      this.#gone = new AbortController();
      if (this.isGone) this.#gone.abort(left());
    }
    return this.#gone.signal;
  }

  /** Whether the connection closes after this answer. */
  get isLast(): boolean {
    return this.#isLast || this.#connection.isEnding;
  }

  /** Closes the connection after this answer. */
  makeLast(): void {
    this.#isLast = true;
  }

  /** Destroys the connection at once, even if written bytes are lost. */
  abort(): void {
    this.#ended = true;
    if (!this.#isGone) this.#connection.destroy();
  }

  get isGone(): boolean {
    return this.#isGone || this.#cut !== undefined;
  }

  /** The refusal with which the gateway itself ended the request, or undefined. */
  get cut(): Refusal | undefined {
    return this.#cut;
  }

  /** Ends the request as if the client had left; `handle` then refuses it. Cuts off an answer that has begun. */
  cutOff(refusal: Refusal): void {
    if (this.#isGone || this.#ended) return;
    this.#cut = refusal;
    if (this.#startedMs !== undefined) {
      this.flush();
      this.#connection.destroySoon();
      return;
    }
    this.#gone?.abort(left());
    this.#sink?.onClose();
    this.#listener?.onGone();
  }

  get startedMs(): number | undefined {
    return this.#startedMs;
  }

  listen(listener: AnswerListener | undefined): void {
    this.#listener = listener;
  }

  setField(name: string, value: string): void {
    this.#fields ??= [];
    this.#fields.push(name, value);
  }

  whole(
    status: number,
    type: string | undefined,
    fields: Fields,
    body: string | Uint8Array | undefined,
  ): Promise<boolean> {
    if (!this.#begins()) return Promise.resolve(false);
    const length = body === undefined ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`;
    const head = this.#formatHead(status, type, length, fields);
    const isShown = this.head.method !== 'HEAD' && body !== undefined;
    if (isShown && typeof body !== 'string') return this.#finish(head, body);
    return this.#finish(isShown ? head + body : head, undefined);
  }

  start(type: string, fields: Fields): void {
    if (!this.#begins()) return;
    this.#isStream = true;
    if (this.head.httpVersion !== '1.1') this.#isLast = true;
    const coding = this.head.httpVersion === '1.1' ? 'transfer-encoding: chunked\r\n' : '';
    this.#unsentHead = this.#formatHead(200, type, coding, fields);
  }

  write(text: string): void {
    if (this.#isGone || this.#ended || !this.#isStream) return;
    this.#pending += text;
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    process.nextTick(flush, this);
  }

  end(): Promise<boolean> {
    if (this.#isGone || this.#ended) return Promise.resolve(false);
    const last = this.head.httpVersion === '1.1' ? '0\r\n\r\n' : '';
    return this.#finish(this.#takePending() + last, undefined);
  }

  destroy(): void {
    if (this.#isGone || this.#ended) return;
    this.flush();
    this.#ended = true;
    this.#connection.destroySoon();
  }

  flush(): void {
    this.#isPlanned = false;
    if (this.#isGone || this.#ended || this.#pending === '') return;
    if (!this.#connection.write(this.#takePending())) this.#listener?.onBlocked();
  }

  onDrained(): void {
    if (!this.#isGone && !this.#ended) this.#listener?.onDrained();
  }

  /** Called when the kernel has accepted the last byte. */
  onHanded(): void {
    this.#settleEnd(true);
  }

  /** Called when the connection is lost. */
  onClose(): void {
    this.#gone?.abort(left());
    this.#sink?.onClose();
    this.#settleEnd(false);
    if (this.#isGone || this.#ended) return;
    this.#isGone = true;
    this.#pending = '';
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.onGone();
  }

  #endBody(): void {
    this.#sink?.onEnd();
    this.#sink = undefined;
  }

  #begins(): boolean {
    if (this.#startedMs !== undefined || this.#isGone || this.#ended) return false;
    this.#startedMs = performance.now();
    return true;
  }

  #formatHead(status: number, type: string | undefined, length: string, fields: Fields): string {
    // A client that did not get 100 Continue may or may not send its body, so the connection cannot be reused.
    if (this.head.expectsContinue && this.#sink === undefined && !this.#isWhole) this.#isLast = true;
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    if (type !== undefined) head += `content-type: ${type}\r\n`;
    head += length;
    for (let i = 0; i < fields.length; i += 2) head += `${fields[i]}: ${fields[i + 1]}\r\n`;
    const more = this.#fields ?? [];
    for (let i = 0; i < more.length; i += 2)
      if (!hasField(fields, more[i] as string)) head += `${more[i]}: ${more[i + 1]}\r\n`;
    const connection = this.isLast
      ? 'connection: close\r\n\r\n'
      : `connection: keep-alive\r\nkeep-alive: timeout=${this.#connection.keepAliveSeconds}\r\n\r\n`;
    return head + dateLine() + connection;
  }

  /** Returns the pending bytes of a stream, with the head before the first event. */
  #takePending(): string {
    const bytes = this.#unsentHead + this.#framed(this.#pending);
    this.#unsentHead = '';
    this.#pending = '';
    return bytes;
  }

  #framed(text: string): string {
    if (text === '' || this.head.httpVersion !== '1.1') return text;
    return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
  }

  #finish(head: string, body: Uint8Array | undefined): Promise<boolean> {
    this.#ended = true;
    const handed = new Promise<boolean>((resolve) => {
      this.#resolveEnd = resolve;
    });
    // Outside the promise's executor, which would turn an exception into an unhandled rejection.
    this.#connection.writeLast(head, body);
    return handed;
  }

  #settleEnd(delivered: boolean): void {
    const resolve = this.#resolveEnd;
    if (resolve === undefined) return;
    this.#resolveEnd = undefined;
    this.#listener = undefined;
    resolve(delivered);
  }
}

function hasField(fields: Fields, name: string): boolean {
  for (let i = 0; i < fields.length; i += 2) if (fields[i] === name) return true;
  return false;
}

function deliverEarly(exchange: Exchange): void {
  exchange.deliverEarly();
}

function flush(exchange: Exchange): void {
  exchange.flush();
}

function left(): ClientGone {
  return new ClientGone('the client left before its answer');
}
