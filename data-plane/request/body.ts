/**
 * Reads a request's body whole, within bounds: its size, the memory that bodies may take, the client's pace, and how many
 * pieces one turn of the event loop reads. Nothing of it is logged or kept beyond its request.
 */
import type { IncomingMessage } from 'node:http';
import { Refusal } from '../../shared/decision/refusal.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import type { MemoryBudget } from '../core/byte-budget.ts';
import { Ticker, type Timed } from '../core/ticker.ts';
import { takeTurns } from './http.ts';

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

function tooLarge(): Refusal {
  return new Refusal('PayloadTooLargeError', `The request body is larger than ${bodyBytesMax} bytes.`);
}

function tooSlow(): Refusal {
  const message = 'The request body came slower than 8 KiB a second, so it was not waited for. Try again.';
  return new Refusal('InferenceUnavailableError', message, { reason: 'slow body' });
}

/**
 * Throws PayloadTooLargeError, or InferenceUnavailableError where memory for bodies has run out or the body comes too
 * slowly, or ClientGone. `onWanted` is called once, unless the body is refused by its declared length alone.
 */
export function readBody(
  request: IncomingMessage,
  memory: MemoryBudget,
  onWanted: () => void = () => undefined,
  pace: BodyPace = slowestPace,
): Promise<Body> {
  const declared = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  if (declared > bodyBytesMax && declared !== Number.POSITIVE_INFINITY) return Promise.reject(tooLarge());
  onWanted();
  return new Promise((resolve, reject) => {
    const bytes = new ChunkBuffer({
      reserve: (more) => memory.reserve(more),
      bytesMax: Math.min(declared, bodyBytesMax),
    });
    let held = 0;
    const release = (): void => {
      memory.release(held);
      held = 0;
    };
    let settled = false;
    const fail = (error: Error): void => {
      if (settled) return;
      settled = true;
      late.end();
      memory.release(bytes.allocatedBytes);
      bytes.clear();
      reject(error);
    };
    const late = new Lateness(pace, bytes, () => fail(tooSlow()));
    takeTurns(request);
    // The listeners stay: the request lives no longer than its response, and a lost connection closes it without an error.
    request.on('data', (piece: Buffer): void => {
      if (settled) return;
      if (bytes.length + piece.length > bodyBytesMax) fail(tooLarge());
      else if (!bytes.add(piece)) fail(memory.refusal());
      else if (bytes.length < declared) late.watch();
    });
    request.on('end', (): void => {
      if (settled) return;
      settled = true;
      late.end();
      held = bytes.allocatedBytes;
      resolve({ bytes, release });
    });
    request.on('close', () => {
      if (!settled) fail(new ClientGone('the client left before its body was whole'));
    });
  });
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
    this.#judgedMs = performance.now() + this.#pace.ms;
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
