/**
 * Reads a request's body whole, within bounds: its size, the memory that bodies may take, the client's pace, and how many
 * pieces one turn of the event loop reads. Nothing of it is logged or kept beyond its request.
 */
import type { IncomingMessage } from 'node:http';
import { Refusal } from '../../shared/decision/refusal.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { Ticker, type Timed } from '../../shared/runtime/ticker.ts';
import type { MemoryBudget } from '../core/byte-budget.ts';
import { Turns } from './http.ts';

const bodyBytesMax = 32 * 1024 * 1024;

/** The slowest that a body may come: this many bytes in each such span of time but the first. */
export interface BodyPace {
  readonly bytes: number;
  readonly ms: number;
  /** Judges it. */
  readonly ticker: Ticker;
}
/** 8 KiB a second. Most bodies come in one piece, and are never waited for here. */
const slowestPace: BodyPace = { bytes: 80 * 1024, ms: 10_000, ticker: new Ticker(1000) };

/** The client left before its body was whole; there is no one to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

export interface Body {
  readonly bytes: ChunkBuffer;
  /** Releases the memory. Idempotent. */
  release(): void;
}

function tooLarge(bytesMax: number): Refusal {
  return new Refusal('PayloadTooLargeError', `The request body is larger than ${bytesMax} bytes.`);
}

function tooSlow(): Refusal {
  const message = 'The request body came slower than 8 KiB a second, so it was not waited for. Try again.';
  return new Refusal('InferenceUnavailableError', message, { reason: 'slow body' });
}

interface BodyOptions {
  readonly pace?: BodyPace | undefined;
  readonly bytesMax?: number | undefined;
}

/**
 * Throws PayloadTooLargeError, or InferenceUnavailableError where memory for bodies has run out or the body comes too
 * slowly, or ClientGone. `onWanted` is called once, unless the body is refused by its declared length alone.
 */
export function readBody(
  request: IncomingMessage,
  memory: MemoryBudget,
  onWanted: () => void = () => undefined,
  { pace = slowestPace, bytesMax = bodyBytesMax }: BodyOptions = {},
): Promise<Body> {
  const declared = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  if (declared > bytesMax && declared !== Number.POSITIVE_INFINITY) return Promise.reject(tooLarge(bytesMax));
  onWanted();
  return new Promise((resolve, reject) => {
    const body = new IncomingBody(request, { memory, declared, pace, bytesMax }, resolve, reject);
    // The listeners stay: the request lives no longer than its response, and a lost connection closes it without an error.
    request.on('data', (piece: Buffer) => body.onPiece(piece));
    request.on('end', () => body.onEnd());
    request.on('close', () => body.onClose());
  });
}

interface BodyBounds {
  readonly memory: MemoryBudget;
  readonly declared: number;
  readonly bytesMax: number;
  readonly pace: BodyPace;
}

class IncomingBody implements Body {
  readonly bytes: ChunkBuffer;
  readonly #request: IncomingMessage;
  readonly #bounds: BodyBounds;
  readonly #resolve: (body: Body) => void;
  readonly #reject: (error: Error) => void;
  readonly #turns = new Turns();
  /** Most bodies come in one piece, whose pace nobody watches. */
  #late: Lateness | undefined;
  #held = 0;
  #settled = false;

  constructor(
    request: IncomingMessage,
    bounds: BodyBounds,
    resolve: (body: Body) => void,
    reject: (error: Error) => void,
  ) {
    const { memory, declared, bytesMax } = bounds;
    this.#request = request;
    this.#bounds = bounds;
    this.#resolve = resolve;
    this.#reject = reject;
    this.bytes = new ChunkBuffer({
      reserve: (more) => memory.reserve(more),
      bytesMax: Math.min(declared, bytesMax),
    });
  }

  readonly release = (): void => {
    this.#bounds.memory.release(this.#held);
    this.#held = 0;
  };

  onPiece(piece: Buffer): void {
    this.#turns.count(this.#request);
    if (this.#settled) return;
    if (this.bytes.length + piece.length > this.#bounds.bytesMax) this.#fail(tooLarge(this.#bounds.bytesMax));
    else if (!this.bytes.add(piece)) this.#fail(this.#bounds.memory.refusal());
    else if (this.bytes.length < this.#bounds.declared) this.#watch();
  }

  onEnd(): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#late?.end();
    this.#held = this.bytes.allocatedBytes;
    this.#resolve(this);
  }

  onClose(): void {
    if (!this.#settled) this.#fail(new ClientGone('the client left before its body was whole'));
  }

  #watch(): void {
    this.#late ??= new Lateness(this.#bounds.pace, this.bytes, () => this.#fail(tooSlow()));
    this.#late.watch();
  }

  #fail(error: Error): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#late?.end();
    this.#bounds.memory.release(this.bytes.allocatedBytes);
    this.bytes.clear();
    this.#reject(error);
  }
}

/** Watches the pace of one body, from its first piece on. */
class Lateness implements Timed {
  index = -1;
  readonly #pace: BodyPace;
  readonly #bytes: ChunkBuffer;
  readonly #onLate: () => void;
  /** When the present span ends, and what must have come by then. */
  #judgedMs = 0;
  #bytesWanted = 0;
  #isWarned = false;

  constructor(pace: BodyPace, bytes: ChunkBuffer, onLate: () => void) {
    this.#pace = pace;
    this.#bytes = bytes;
    this.#onLate = onLate;
  }

  watch(): void {
    if (this.index >= 0) return;
    this.#pace.ticker.add(this);
    // The first span is judged by nothing.
    this.#judgedMs = this.#pace.ticker.nowMs + this.#pace.ms;
  }

  end(): void {
    this.#pace.ticker.delete(this);
  }

  tick(nowMs: number): void {
    if (nowMs < this.#judgedMs) return;
    if (this.#bytes.length < this.#bytesWanted) {
      // After a stall of this process, what arrived meanwhile is read after this tick.
      if (this.#isWarned) this.#onLate();
      this.#isWarned = true;
      return;
    }
    this.#isWarned = false;
    this.#bytesWanted = this.#bytes.length + this.#pace.bytes;
    this.#judgedMs = nowMs + this.#pace.ms;
  }
}
