/**
 * The exchange over `node:http`. One object for the request and its answer, because there is one for each request; for the
 * same reason what its connection calls are functions of this file where they can be.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { httpFault } from '../../shared/runtime/http-fault.ts';
import {
  type BodyFlow,
  type BodySink,
  ClientGone,
  declaredLength,
  discardRest,
  pourBody,
} from '../../shared/runtime/request-body.ts';
import { endUntaken } from '../../shared/runtime/untaken.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { AnswerListener, ClientAnswer, Exchange, Fields, HttpHead } from './exchange.ts';

export interface ClientWaits {
  /** A client that takes no byte for so long is cut off. */
  readonly stallMs: number;
  /** The same after an early end, while what was delivered is still on its way; nothing waits for that client then. */
  readonly lastBytesMs: number;
}

const clientWaits: ClientWaits = { stallMs: waits.clientReads.ms, lastBytesMs: waits.clientLastBytes.ms };

export class NodeExchange implements Exchange, ClientAnswer {
  readonly response: ServerResponse;
  readonly #socket: ExchangeSocket;
  readonly #waits: ClientWaits;
  #listener: AnswerListener | undefined;
  /** Made when it is asked for. */
  #gone: AbortController | undefined;
  /** Of a stream. */
  #flush: (() => void) | undefined;
  #onDrain: (() => void) | undefined;
  /**
   * Never a function literal: V8 allocates one that is assigned to a property in old space, from where it keeps its whole
   * request alive until the next full collection.
   */
  #resolveEnd: ((delivered: boolean) => void) | undefined;
  #pending = '';
  #flushPlanned = false;
  /** The head and the first chunk were given to the server, which has the connection at once or in its turn. */
  #isHeadSent = false;
  #untaken: NodeJS.Timeout | undefined;
  #startedMs: number | undefined;
  #ended = false;
  #isGone: boolean;

  constructor(response: ServerResponse, bounds: ClientWaits = clientWaits) {
    this.response = response;
    // Of the request, because a pipelined response has none of its own until its turn.
    this.#socket = response.req.socket;
    this.#waits = bounds;
    this.#isGone = this.#socket.destroyed || response.destroyed;
    enter(this.#socket, this);
    response.on('close', leave);
  }

  get head(): HttpHead {
    return this.response.req;
  }

  get fault(): string | undefined {
    return httpFault(this.response.req);
  }

  get peer(): string | undefined {
    return this.#socket.remoteAddress;
  }

  get answer(): ClientAnswer {
    return this;
  }

  get declaredBytes(): number {
    return declaredLength(this.response.req);
  }

  /** A client that waits with its body gets 100 Continue. */
  body(sink: BodySink): BodyFlow {
    const { req: request } = this.response;
    if (request.headers.expect !== undefined && request.httpVersion === '1.1') this.response.writeContinue();
    return pourBody(request, sink);
  }

  discardBody(): void {
    discardRest(this.response.req);
  }

  get gone(): AbortSignal {
    if (this.#gone === undefined) {
      this.#gone = new AbortController();
      if (this.#isGone) this.#gone.abort(left());
    }
    return this.#gone.signal;
  }

  get isLast(): boolean {
    return this.#socket[isEnding] === true;
  }

  makeLast(): void {
    this.#socket[isEnding] = true;
    this.response.setHeader('connection', 'close');
  }

  abort(): void {
    this.#ended = true;
    this.response.destroy();
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  get startedMs(): number | undefined {
    return this.#startedMs;
  }

  listen(listener: AnswerListener | undefined): void {
    this.#listener = listener;
  }

  setField(name: string, value: string): void {
    this.response.setHeader(name, value);
  }

  whole(
    status: number,
    type: string | undefined,
    fields: Fields,
    body: string | Uint8Array | undefined,
  ): Promise<boolean> {
    if (!this.#begins()) return Promise.resolve(false);
    const head = type === undefined ? [] : ['content-type', type];
    if (body !== undefined) head.push('content-length', String(Buffer.byteLength(body)));
    this.response.writeHead(status, withFields(head, fields));
    return this.#finish(body);
  }

  start(type: string, fields: Fields): void {
    if (!this.#begins()) return;
    this.#socket.setNoDelay(true);
    this.#flush = this.#write.bind(this);
    this.#onDrain = this.#drained.bind(this);
    this.response.on('drain', this.#onDrain);
    this.response.writeHead(200, withFields(['content-type', type], fields));
  }

  write(text: string): void {
    if (this.#isGone || this.#ended || this.#flush === undefined) return;
    this.#pending += text;
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    queueMicrotask(this.#flush);
  }

  end(): Promise<boolean> {
    if (this.#isGone || this.#ended) return Promise.resolve(false);
    const rest = this.#pending;
    this.#pending = '';
    return this.#finish(rest);
  }

  destroy(): void {
    if (this.#isGone || this.#ended) return;
    this.#write();
    this.#ended = true;
    this.#stallAfter(this.#waits.lastBytesMs);
    this.#socket.destroySoon();
  }

  /** The server calls this also where the last write failed, so the socket is asked. */
  onFinish(): void {
    this.#settleEnd(!this.#socket.destroyed && this.#socket.errored === null);
  }

  onClose(): void {
    this.#gone?.abort(left());
    clearInterval(this.#untaken);
    this.#settleEnd(false);
    if (this.#isGone || this.#ended) return;
    this.#isGone = true;
    this.#pending = '';
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.onGone();
  }

  #begins(): boolean {
    if (this.#startedMs !== undefined) return false;
    this.#startedMs = performance.now();
    return !this.#isGone && !this.#ended;
  }

  #finish(text: string | Uint8Array | undefined): Promise<boolean> {
    this.#ended = true;
    return new Promise((resolve) => {
      this.#resolveEnd = resolve;
      // Not given to end(): Node 24 calls it there without the response.
      this.response.on('finish', onFinish);
      this.response.end(text);
      if (this.#resolveEnd !== undefined && this.#socket.writableLength > 0)
        this.#stallAfter(this.#waits.stallMs);
    });
  }

  #settleEnd(delivered: boolean): void {
    const resolve = this.#resolveEnd;
    if (resolve === undefined) return;
    this.#resolveEnd = undefined;
    clearInterval(this.#untaken);
    this.#listener = undefined;
    resolve(delivered);
  }

  #write(): void {
    this.#flushPlanned = false;
    const text = this.#pending;
    this.#pending = '';
    if (text === '' || this.#isGone || this.#ended) return;
    if (this.#send(text)) return;
    this.#stallAfter(this.#waits.stallMs);
    this.#listener?.onBlocked();
  }

  /**
   * False where the client is behind. The server writes a chunk of a body as four strings; with the head out, this writes it
   * as one, which is most of what an event of a stream costs.
   */
  #send(text: string): boolean {
    const { response } = this;
    const isOpen = this.#isHeadSent && response.chunkedEncoding && response.socket === this.#socket;
    if (!isOpen || response.writableLength > this.#socket.writableLength) {
      this.#isHeadSent = true;
      return response.write(text);
    }
    const isTaken = this.#socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
    if (!isTaken && this.#onDrain !== undefined) this.#socket.once('drain', this.#onDrain);
    return isTaken;
  }

  #drained(): void {
    if (this.#isGone || this.#ended) return;
    clearInterval(this.#untaken);
    this.#listener?.onDrained();
  }

  #stallAfter(ms: number): void {
    clearInterval(this.#untaken);
    this.#untaken = endUntaken(this.#socket, ms);
  }
}

function withFields(head: string[], fields: Fields): string[] {
  for (const field of fields) head.push(field);
  return head;
}

function left(): ClientGone {
  return new ClientGone('the client left before its answer');
}

const exchanges = Symbol('exchanges whose answer has not ended');
const isEnding = Symbol('ends with an answer that was given');

/**
 * In the order of the requests. One listener serves all exchanges of a connection, instead of one that comes and goes with each;
 * an answer that has ended is dropped at once, so that an idle connection keeps nothing of its last request.
 */
interface ExchangeSocket extends Socket {
  /** Almost always one. A Set would build a new table every few requests. */
  [exchanges]?: NodeExchange[];
  [isEnding]?: boolean;
}

function owedOn(socket: ExchangeSocket): readonly NodeExchange[] {
  return socket[exchanges] ?? [];
}

function enter(socket: ExchangeSocket, exchange: NodeExchange): void {
  const known = socket[exchanges];
  if (known !== undefined) {
    known.push(exchange);
    return;
  }
  socket[exchanges] = [exchange];
  socket.on('close', closeAll);
}

function closeAll(this: ExchangeSocket): void {
  for (const each of [...owedOn(this)]) each.onClose();
}

/** Of an answer in its turn the server reports the end of the connection here, before the connection itself does. */
function leave(this: ServerResponse): void {
  const socket: ExchangeSocket = this.req.socket;
  const all = socket[exchanges] ?? [];
  const exchange = exchangeOf(this);
  if (exchange === undefined) return;
  if (all.length === 1) all.pop();
  else all.splice(all.indexOf(exchange), 1);
  if (socket.destroyed) exchange.onClose();
}

function onFinish(this: ServerResponse): void {
  exchangeOf(this)?.onFinish();
}

function exchangeOf(response: ServerResponse): NodeExchange | undefined {
  for (const each of owedOn(response.req.socket)) if (each.response === response) return each;
  return undefined;
}
