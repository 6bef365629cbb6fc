/**
 * One request to one node: head, body and end reach a reader as they come. If a reused connection ends without a byte of the
 * answer, the request goes out once more, on a new connection. It reports exactly one end to the reader, and nothing after
 * it; it knows whether any byte of the request was sent; and it ends every wait. Everything from the node is bounded: its
 * head by the pool, early answers (1xx), the wait that the reader set, and what it sends after the reader has had enough.
 */
import { isOutOfFiles } from '../../shared/runtime/open-files.ts';
import type { Ticker, Timed } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { spanLength, value as valueBytes } from '../http/characters.ts';
import type { BodyPieces } from './body-pieces.ts';
import type { NodePools, Upstream } from './node-pools.ts';
import { type WireCall, type WireController, WireFault, type WireRequest } from './wire-call.ts';

/**
 * `unreached`: no byte of the request was sent. `own`: the same, and by this process's fault. `timeout`: a wait ran out.
 * `lost`: the rest.
 */
export type CallFailureKind = 'unreached' | 'own' | 'timeout' | 'lost';

/** Why a call failed; its message is for the log and holds nothing that node or client wrote. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure';
  readonly kind: CallFailureKind;

  constructor(kind: CallFailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface CallReader {
  /** A connection was obtained; the request goes out. */
  onSent?(): void;
  /** That connection was lost without a byte of the answer; the request will go out on a new one. */
  onUnanswered?(): void;
  /** The connection has taken the last byte of a body in pieces. */
  onTaken?(): void;
  onHead(status: number, contentType: string): void;
  onData(chunk: Buffer): void;
  /** The body ended as its framing states. */
  onEnd(): void;
  /** A CallFailure, or any other error for a fault of this program. */
  onFailure(error: Error): void;
}

export interface NodeRequest {
  /** Base address of the node. */
  readonly url: string;
  /** Below the base address, beginning with a slash. */
  readonly path: string;
  readonly body: string | BodyPieces;
  readonly accept: 'application/json' | 'text/event-stream';
  /** Name of the node's credential; null where it wants none. */
  readonly credential: string | null;
  readonly traceparent?: string | undefined;
  /** The node closes the connection after its answer, so no other request may follow on it. */
  readonly isLastOnConnection?: boolean;
}

const interimAnswersMax = 8;
/** What a node may still send after its answer was complete. */
const restBytesMax = 64 * 1024;

/** What is read of one answer before other requests get their turn. */
const turnPiecesMax = 512;
const turnBytesMax = 64 * 1024;

export class NodeCall implements WireCall, Timed {
  index = -1;
  readonly #ticker: Ticker;
  #reader: CallReader | undefined;
  #controller: WireController | undefined;
  /** What may be sent a second time; undefined once it was, or once an answer has begun. */
  #request: WireRequest | undefined;
  #wires: Upstream['pool'] | undefined;
  #connectMs = 0;
  /** The exchange with the node is over, or nothing of it is wanted any more. */
  #over = false;
  #sent = false;
  #paused = false;
  #connectByMs = Number.POSITIVE_INFINITY;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #awaited = '';
  #interimAnswers = 0;
  #restBytes = 0;
  #isYielding = false;
  #turnPieces = 0;
  #turnBytes = 0;

  constructor(ticker: Ticker, reader: CallReader) {
    this.#ticker = ticker;
    this.#reader = reader;
  }

  /** Sends the request. The wait for its answer has to be set before; connecting has a shorter one of its own. */
  start(pools: NodePools, request: NodeRequest): void {
    const { url, path, body, accept, credential, traceparent, isLastOnConnection } = request;
    const { pool, pathPrefix } = pools.upstream(url);
    this.#wires = pool;
    this.#connectMs = pools.connectMs;
    const headers = ['content-type', 'application/json', 'accept', accept];
    if (credential !== null) {
      const value = pools.credential(credential);
      if (value === undefined) {
        this.#fail(new CallFailure('unreached', 'the credential of the node is not known here'));
        return;
      }
      if (spanLength(value, 0, valueBytes) < value.length) {
        this.#fail(new CallFailure('unreached', 'the credential of the node may not be in a header'));
        return;
      }
      headers.push('authorization', `Bearer ${value}`);
    }
    if (traceparent !== undefined) headers.push('traceparent', traceparent);
    this.#ticker.add(this);
    if (typeof body !== 'string') {
      headers.push('content-length', String(body.length));
      body.onTaken = () => this.#reader?.onTaken?.();
    }
    const isLast = isLastOnConnection === true;
    this.#request = { path: pathPrefix + path, headers, body, isLast, isFresh: false };
    this.#dispatch(this.#request);
  }

  #dispatch(request: WireRequest): void {
    this.#connectByMs = this.#ticker.nowMs + this.#connectMs;
    this.#wires?.dispatch(request, this);
  }

  /** From now on; replaces the wait before. `awaited` completes the sentence "the node did not send …". */
  setDeadline(ms: number, awaited: string): void {
    this.#deadlineMs = this.#ticker.nowMs + ms;
    this.#awaited = awaited;
  }

  /** No wait runs while paused: it is not the node that is slow. */
  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#paused = false;
    if (!this.#isYielding) this.#controller?.resume();
  }

  /** Ends the request at the node at once. The reader gets no further call. */
  abort(): void {
    this.#reader = undefined;
    if (this.#over) return;
    this.#finish();
    this.#controller?.abort();
  }

  /** The answer was complete; what is left of the body is read and dropped, so that the connection can be used again. */
  drain(): void {
    this.#reader = undefined;
    if (this.#over) return;
    this.setDeadline(waits.nodeRest.ms, 'the end of its body');
    this.#restBytes = 0;
    if (this.#paused) this.resume();
  }

  tick(nowMs: number): void {
    if (!this.#sent) {
      if (nowMs >= this.#connectByMs) this.#giveUp('unreached', 'the node did not take a connection in time');
    } else if (!this.#paused && nowMs >= this.#deadlineMs) {
      this.#giveUp('timeout', `the node did not send ${this.#awaited} in time`);
    }
  }

  onRequestStart(controller: WireController): void {
    this.#controller = controller;
    if (this.#over) {
      controller.abort();
      return;
    }
    this.#sent = true;
    this.#reader?.onSent?.();
  }

  onResponseStart(status: number, contentType: string): void {
    if (this.#over) return;
    this.#request = undefined;
    if (status < 200) {
      this.#interimAnswers += 1;
      if (this.#interimAnswers > interimAnswersMax)
        this.#giveUp('lost', 'the node sent too many early answers');
      return;
    }
    this.#reader?.onHead(status, contentType);
  }

  onResponseData(chunk: Buffer): void {
    if (this.#over) return;
    this.#yieldIfNeeded(chunk.length);
    if (this.#reader !== undefined) {
      this.#reader.onData(chunk);
      return;
    }
    this.#restBytes += chunk.length;
    if (this.#restBytes > restBytesMax) this.abort();
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#finish();
    this.#detachReader()?.onEnd();
  }

  onUnanswered(error: Error): void {
    const request = this.#request;
    this.#request = undefined;
    if (request === undefined || this.#over) {
      this.onResponseError(error);
      return;
    }
    this.#sent = false;
    this.#reader?.onUnanswered?.();
    const { path, headers, body, isLast } = request;
    this.#dispatch({ path, headers, body, isLast, isFresh: true });
  }

  onResponseError(error: Error): void {
    if (this.#over) return;
    this.#fail(this.#explain(error));
  }

  /** A node may send each byte as a piece of its own, or many events at once: others get their turn in between. */
  #yieldIfNeeded(bytes: number): void {
    this.#turnPieces += 1;
    this.#turnBytes += bytes;
    if (this.#isYielding || (this.#turnPieces < turnPiecesMax && this.#turnBytes < turnBytesMax)) return;
    this.#isYielding = true;
    this.#controller?.pause();
    setImmediate(() => {
      this.#isYielding = false;
      this.#turnPieces = 0;
      this.#turnBytes = 0;
      if (!this.#paused) this.#controller?.resume();
    });
  }

  #giveUp(kind: CallFailureKind, reason: string): void {
    const reader = this.#reader;
    this.abort();
    reader?.onFailure(new CallFailure(kind, reason));
  }

  #fail(error: Error): void {
    this.#finish();
    this.#detachReader()?.onFailure(error);
  }

  #detachReader(): CallReader | undefined {
    const reader = this.#reader;
    this.#reader = undefined;
    return reader;
  }

  #finish(): void {
    this.#over = true;
    this.#ticker.delete(this);
  }

  /** Errors of sockets have a code, and messages that can hold what the node sent, so only the code is kept. */
  #explain(error: Error): Error {
    if (error instanceof WireFault) return new CallFailure(this.#sent ? 'lost' : 'unreached', error.message);
    const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
    if (code === undefined) return error;
    if (isOutOfFiles(error) && !this.#sent)
      return new CallFailure('own', `this gateway has no file descriptor left: ${code}`);
    return new CallFailure(this.#sent ? 'lost' : 'unreached', `the connection to the node failed: ${code}`);
  }
}
