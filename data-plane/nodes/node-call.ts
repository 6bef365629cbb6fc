/**
 * A request to one node. The reader gets the head, the body and exactly one end, and nothing afterwards. If a reused
 * connection ends without a byte of the response, the request is sent once more, on a new connection. A failure says whether
 * any byte of the request was sent. Everything that a node sends is bounded: the head by the pool, interim responses (1xx) by
 * number, the time by the reader's deadline, and the bytes after the response by size.
 */
import { isOutOfFiles } from '../../shared/runtime/open-files.ts';
import type { Ticker, Timed } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { spanLength, value as valueBytes } from '../http/characters.ts';
import type { BodyPieces } from './body-pieces.ts';
import type { NodePools, Upstream } from './node-pools.ts';
import { type WireCall, type WireController, WireFault, type WireRequest } from './wire-call.ts';

/** Why a call failed. `unreached` and `own` (a fault of this process) mean that no byte was sent. */
export type CallFailureKind = 'unreached' | 'own' | 'timeout' | 'lost';

/** Error of a failed call. Its message may be logged, because it contains no text from the node or the client. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure';
  readonly kind: CallFailureKind;

  constructor(kind: CallFailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface CallReader {
  /** Called when a connection is ready and the request is being sent. */
  onSent?(): void;
  /** Called if the connection was lost before any byte of the response, so the request will be sent again on a new one. */
  onUnanswered?(): void;
  /** Called when the connection has accepted the last byte of a body that is sent in pieces. */
  onTaken?(): void;
  onHead(status: number, contentType: string): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  /** Called with a `CallFailure`, or with any other error if there is a bug in this program. */
  onFailure(error: Error): void;
}

export interface NodeRequest {
  readonly url: string;
  /** Path below the node's base address, beginning with a slash. */
  readonly path: string;
  readonly body: string | BodyPieces;
  readonly accept: 'application/json' | 'text/event-stream';
  /** Name of the node's credential, or null if the node requires none. */
  readonly credential: string | null;
  readonly traceparent?: string | undefined;
  /** Whether the node will close the connection after its response. */
  readonly isLastOnConnection?: boolean;
}

const interimAnswersMax = 8;
/** Maximum number of bytes that `drain` reads and drops. */
const restBytesMax = 64 * 1024;

/** Number of parts, and of bytes, of one response that are read before other requests get a turn. */
const turnPiecesMax = 512;
const turnBytesMax = 64 * 1024;

export class NodeCall implements WireCall, Timed {
  index = -1;
  readonly #ticker: Ticker;
  #reader: CallReader | undefined;
  #controller: WireController | undefined;
  /** Request, while it may still be sent a second time. Undefined after the second try or once a response has begun. */
  #request: WireRequest | undefined;
  #wires: Upstream['pool'] | undefined;
  #connectMs = 0;
  /** Whether the call has ended or been aborted. */
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

  /** Sends the request. `setDeadline` must be called first. The time-out for connecting is separate and shorter. */
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

  /** Replaces the deadline. `awaited` completes the sentence "the node did not send …". */
  setDeadline(ms: number, awaited: string): void {
    this.#deadlineMs = this.#ticker.nowMs + ms;
    this.#awaited = awaited;
  }

  /** Pauses reading. Until reading resumes, no deadline applies, because the delay is not the node's fault. */
  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#paused = false;
    if (!this.#isYielding) this.#controller?.resume();
  }

  /** Ends the call at once, without calling the reader any more. */
  abort(): void {
    this.#reader = undefined;
    if (this.#over) return;
    this.#finish();
    this.#controller?.abort();
  }

  /** Must be called when the response is complete. Reads and drops what follows, so that the connection can be reused. */
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

  /** Pauses reading for one turn if a node has sent many parts or events, so that other requests get their turn. */
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

  /** Converts a socket error. Keeps only its error code, because its message may contain text from the node. */
  #explain(error: Error): Error {
    if (error instanceof WireFault) return new CallFailure(this.#sent ? 'lost' : 'unreached', error.message);
    const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
    if (code === undefined) return error;
    if (isOutOfFiles(error) && !this.#sent)
      return new CallFailure('own', `this gateway has no file descriptor left: ${code}`);
    return new CallFailure(this.#sent ? 'lost' : 'unreached', `the connection to the node failed: ${code}`);
  }
}
