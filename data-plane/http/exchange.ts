/**
 * One request and its answer, as all that handles requests sees them. A connection has one at a time, so both are fields here, and
 * what the connection calls are methods.
 */
import { STATUS_CODES } from 'node:http';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { httpFault } from '../../shared/runtime/http-fault.ts';
import type { BodyFlow, BodySink, BodySource } from './body.ts';
import { dateLine } from './date-line.ts';
import type { ParsedRequest } from './message-head.ts';

export interface AnswerListener {
  /** The connection is gone before the answer has ended. */
  onGone(): void;
  /** The client reads slower than it is given; hold back until `onDrained`. */
  onBlocked(): void;
  onDrained(): void;
}

/** Name, value, name, value. */
export type Fields = readonly string[];

/**
 * It promises: a complete answer goes out in one write; what a stream is given within one turn goes out in one write;
 * the one that ends an answer learns whether its end was handed to a client still connected; and an early end is never a clean one.
 * A client that stops reading is cut off after a bounded wait. After its end, or without a client, nothing does anything.
 */
export interface ClientAnswer {
  /** The connection was lost before the answer had ended. */
  readonly isGone: boolean;
  /** When the first byte went out, or was about to, monotonic ms; undefined before. */
  readonly startedMs: number | undefined;
  /** A complete answer, without a body to HEAD; nothing where an answer has begun. Resolves as `end` does. */
  whole(
    status: number,
    type: string | undefined,
    fields: Fields,
    body: string | Uint8Array | undefined,
  ): Promise<boolean>;
  /** Begins a stream. The head goes out with the first bytes. */
  start(type: string, fields: Fields): void;
  write(text: string): void;
  /**
   * Ends a stream cleanly. Resolves when the last byte has been handed to the system for a client still connected, or
   * with false when the connection went first.
   */
  end(): Promise<boolean>;
  /** An early end: what was delivered is still sent, then the connection is destroyed, without the end of the body. */
  destroy(): void;
  /** Replaces the listener. */
  listen(listener: AnswerListener | undefined): void;
  /** A field of every answer to this request that has none of that name. */
  setField(name: string, value: string): void;
}

/** What an exchange does with its connection. */
export interface ExchangeConnection {
  readonly peer: string | undefined;
  /** No answer that is begun from now on leaves the connection open. */
  readonly isEnding: boolean;
  readonly keepAliveSeconds: number;
  /** Nothing more is read until `resumeReading`. */
  hold(): void;
  resumeReading(): void;
  /** False where the client is behind. */
  write(bytes: string): boolean;
  /** The last bytes of the answer. `onHanded` of the exchange follows, unless the connection is lost. */
  writeLast(head: string, body: Uint8Array | undefined): void;
  /** Destroys the connection once what was written is on its way. */
  destroySoon(): void;
  destroy(): void;
}

export class Exchange implements BodySource, BodyFlow, ClientAnswer {
  /** Whole before anything is asked of it. */
  readonly head: ParsedRequest;
  readonly #connection: ExchangeConnection;
  #sink: BodySink | undefined;
  /** What came of the body before it was asked for. */
  #early: Buffer | undefined;
  #isWhole = false;
  #isDiscarded = false;
  /** The sink gets what came early in the next turn of the microtasks. */
  #isDue = false;
  #gone: AbortController | undefined;
  #isGone = false;
  #listener: AnswerListener | undefined;
  #resolveEnd: ((delivered: boolean) => void) | undefined;
  /** Of every answer: name, value, name, value. */
  #fields: string[] | undefined;
  #isLast: boolean;
  #startedMs: number | undefined;
  #ended = false;
  #isStream = false;
  /** The head of a stream that did not go out yet. */
  #unsentHead = '';
  #pending = '';
  #isPlanned = false;
  #cut: Refusal | undefined;

  constructor(connection: ExchangeConnection, head: ParsedRequest) {
    this.#connection = connection;
    this.head = head;
    this.#isLast = head.isLast || head.fault !== undefined;
  }

  /** What makes the head no HTTP that can be read in one way, as a sentence. */
  get fault(): string | undefined {
    return this.head.fault === undefined ? undefined : httpFault(this.head);
  }

  /** The address at the other end of the connection. */
  get peer(): string | undefined {
    return this.#connection.peer;
  }

  get answer(): ClientAnswer {
    return this;
  }

  get declaredBytes(): number {
    return this.head.framing === 'chunked' ? Number.POSITIVE_INFINITY : this.head.bodyBytes;
  }

  /** All of the request was read. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** A client that waits with its body gets 100 Continue. */
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

  /** Reads and drops what is left of the body of a refused request, so that the client gets to read the refusal; bounded. */
  discardBody(): void {
    this.#isDiscarded = true;
    this.#early = undefined;
    if (!this.#isWhole) this.#connection.resumeReading();
  }

  /** Some of the body came, more is to come, and nobody takes it yet. */
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
    // It may have waited for its turn until the client had left.
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

  /** The connection ends with the answer to this request. */
  get isLast(): boolean {
    return this.#isLast || this.#connection.isEnding;
  }

  /** Ends the connection with the answer to this request. */
  makeLast(): void {
    this.#isLast = true;
  }

  /** Destroys the connection at once, whatever was written. */
  abort(): void {
    this.#ended = true;
    if (!this.#isGone) this.#connection.destroy();
  }

  get isGone(): boolean {
    return this.#isGone || this.#cut !== undefined;
  }

  /** The refusal with which the gateway itself ended the request; undefined if it did not. */
  get cut(): Refusal | undefined {
    return this.#cut;
  }

  /**
   * Ends the request from this side. Its handlers see it as if the client had left, and `handle` then answers with the refusal. If
   * the answer has begun, it is cut off instead.
   */
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

  /** The system has the last byte. */
  onHanded(): void {
    this.#settleEnd(true);
  }

  /** The connection is lost. */
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
    // A client that was not asked for its body may send it or not.
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

  /** What is to be sent of a stream, the head before its first event. */
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
    // Not in there, where what it throws would be nobody's to catch.
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
