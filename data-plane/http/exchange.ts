/**
 * A request together with its response, as request handlers see them. Both are in one object, because a connection has only
 * one exchange at a time and calls its methods directly.
 */
import { STATUS_CODES } from 'node:http';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { httpFault } from '../../shared/runtime/http-fault.ts';
import type { BodyFlow, BodySink, BodySource } from './body.ts';
import { dateLine } from './date-line.ts';
import type { ParsedRequest } from './message-head.ts';

export interface AnswerListener {
  /** Called if the connection was lost before the response ended. */
  onGone(): void;
  /** Called if the client reads more slowly than the response is written. Nothing should be written before `onDrained`. */
  onBlocked(): void;
  onDrained(): void;
}

/** Header fields, as alternating names and values. */
export type Fields = readonly string[];

/**
 * Response to one request. A whole response is sent with one write, and so is everything that is added to a stream in one
 * turn of the event loop. `whole` and `end` resolve to whether the last byte was handed over while the client was connected.
 * A response that ends early never looks complete to the client. A client that stops reading is disconnected after some time.
 * Once the client has disconnected, all methods do nothing.
 */
export interface ClientAnswer {
  /** Whether the connection was lost before the response ended. */
  readonly isGone: boolean;
  /** Time at which the response began, in monotonic ms. Undefined before that. */
  readonly startedMs: number | undefined;
  /** Sends a whole response, without its body for HEAD. Does nothing if a response has begun. Resolves like `end`. */
  whole(
    status: number,
    type: string | undefined,
    fields: Fields,
    body: string | Uint8Array | undefined,
  ): Promise<boolean>;
  /** Begins a stream. Its head is sent together with the first bytes. */
  start(type: string, fields: Fields): void;
  write(text: string): void;
  /** Ends a stream as complete. Resolves to whether the kernel accepted the last byte while the client was connected. */
  end(): Promise<boolean>;
  /** Ends the response early: sends what has been written, then destroys the connection, so that the body is incomplete. */
  destroy(): void;
  listen(listener: AnswerListener | undefined): void;
  /** Adds a header field to any response to this request, unless the response sets the field itself. */
  setField(name: string, value: string): void;
}

/** Operations of the client's connection that an exchange uses. */
export interface ExchangeConnection {
  readonly peer: string | undefined;
  /** Whether the connection closes after the next response. */
  readonly isEnding: boolean;
  readonly keepAliveSeconds: number;
  /** Stops reading from the client until `resumeReading` is called. */
  hold(): void;
  resumeReading(): void;
  /** Writes to the client. Returns false if the client reads more slowly than the response is written. */
  write(bytes: string): boolean;
  /** Writes the end of a response. `onHanded` of the exchange is called later, unless the connection is lost first. */
  writeLast(head: string, body: Uint8Array | undefined): void;
  /** Sends the bytes written so far, then destroys the connection. */
  destroySoon(): void;
  destroy(): void;
}

export class Exchange implements BodySource, BodyFlow, ClientAnswer {
  readonly head: ParsedRequest;
  readonly #connection: ExchangeConnection;
  #sink: BodySink | undefined;
  /** Bytes of the body that arrived before a handler requested the body. */
  #early: Buffer | undefined;
  #isWhole = false;
  #isDiscarded = false;
  /** Whether these early bytes will be delivered to the sink on the next tick. */
  #isDue = false;
  #gone: AbortController | undefined;
  #isGone = false;
  #listener: AnswerListener | undefined;
  #resolveEnd: ((delivered: boolean) => void) | undefined;
  /** Header fields for every response, as alternating names and values. */
  #fields: string[] | undefined;
  #isLast: boolean;
  #startedMs: number | undefined;
  #ended = false;
  #isStream = false;
  /** Head of a stream that has begun, until the head has been sent. */
  #unsentHead = '';
  #pending = '';
  #isPlanned = false;
  #cut: Refusal | undefined;

  constructor(connection: ExchangeConnection, head: ParsedRequest) {
    this.#connection = connection;
    this.head = head;
    this.#isLast = head.isLast || head.fault !== undefined;
  }

  /** Sentence that explains why the request's head is ambiguous or invalid HTTP, or undefined if it is neither. */
  get fault(): string | undefined {
    return this.head.fault === undefined ? undefined : httpFault(this.head);
  }

  get peer(): string | undefined {
    return this.#connection.peer;
  }

  get answer(): ClientAnswer {
    return this;
  }

  get declaredBytes(): number {
    return this.head.framing === 'chunked' ? Number.POSITIVE_INFINITY : this.head.bodyBytes;
  }

  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Begins to read the body. Sends `100 Continue` if the client is waiting for it. */
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

  /** Reads the rest of the body and drops it, up to a limit, because the client might otherwise not read a refusal. */
  discardBody(): void {
    this.#isDiscarded = true;
    this.#early = undefined;
    if (!this.#isWhole) this.#connection.resumeReading();
  }

  /** Whether a part of the body has arrived and more will follow, but no handler has requested the body yet. */
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
    // The client may have disconnected while its request waited for its turn.
    else if (this.isGone) this.#sink?.onClose();
  }

  /** Signal that is aborted with `ClientGone` when the connection is lost. */
  get gone(): AbortSignal {
    if (this.#gone === undefined) {
      this.#gone = new AbortController();
      if (this.isGone) this.#gone.abort(left());
    }
    return this.#gone.signal;
  }

  /** Whether the connection closes after this response. */
  get isLast(): boolean {
    return this.#isLast || this.#connection.isEnding;
  }

  makeLast(): void {
    this.#isLast = true;
  }

  /** Destroys the connection at once. Bytes that were written may be lost. */
  abort(): void {
    this.#ended = true;
    if (!this.#isGone) this.#connection.destroy();
  }

  get isGone(): boolean {
    return this.#isGone || this.#cut !== undefined;
  }

  /** Refusal with which the gateway itself ended the request, or undefined if it did not end the request. */
  get cut(): Refusal | undefined {
    return this.#cut;
  }

  /** Ends the request as if the client had disconnected. If no response has begun, `handle` then sends this refusal. */
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

  /** Called when the kernel has accepted the last byte of the response. */
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
    // A client that did not get `100 Continue` may or may not send the body, so the connection cannot be used again.
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

  /** Bytes of a stream that must be written now, preceded by its head if that has not been sent. */
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
    // Do not call this in the promise's executor, because an exception would then become an unhandled rejection.
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
