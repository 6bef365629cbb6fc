/**
 * Reads a request's body whole, within bounds: its size, the memory that bodies may take, and the client's pace. If a caller's share
 * has no room, a body can be held back until it has: its connection is not read, so the client's system waits. Nothing of a body is
 * logged or kept beyond its request.
 */
import { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import type { HeldBody, MemoryShortage, SharedBudget } from '../../shared/runtime/byte-budget.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { Ticker, type Timed } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { memoryRefusal } from '../surfaces/common/memory-refusal.ts';

/** The slowest that a body may come: this many bytes in each such span of time but the first. */
export interface BodyPace {
  readonly bytes: number;
  readonly ms: number;
  /** Judges it. */
  readonly ticker: Ticker;
}
/** 8 KiB a second. Most bodies come with their head, and are never waited for here. */
const slowestPace: BodyPace = { bytes: 80 * 1024, ms: waits.clientBody.ms, ticker: new Ticker(1000) };

/** A body of so many bytes waits for no larger one: it is parsed and given back at once. */
const turnlessBytesMax = 256 * 1024;

/** Why a body is not read to its end. */
type BodyFault = 'large' | 'slow' | MemoryShortage;

interface BodyBounds {
  readonly bytesMax: number;
  readonly pace?: BodyPace | undefined;
  /** Longest time that a body waits for room in its caller's share, in ms. */
  readonly turnMsMax?: number | undefined;
}

export interface Body {
  readonly bytes: ChunkBuffer;
  /** Releases the memory. Idempotent. */
  release(): void;
}

/** What takes a body as it comes. `onClose` comes last, also after the end. */
export interface BodySink {
  onPiece(piece: Buffer): void;
  onEnd(): void;
  onClose(): void;
}

export interface BodyFlow {
  /** Nothing more is read until `letGo`; what was read already still comes. */
  hold(): void;
  letGo(): void;
}

/** A request whose body was not asked for yet. */
export interface BodySource {
  /** Infinite where the body comes in chunks. */
  readonly declaredBytes: number;
  /** Asks for the body. Nothing of it comes within this call. */
  body(sink: BodySink): BodyFlow;
}

/**
 * Rejects with PayloadTooLargeError, with ClientGone, or with InferenceUnavailableError if there is no memory for the body, its turn
 * does not come in time, or it comes too slowly. A body that is too large by its declared length is not asked for.
 */
export function readBody(source: BodySource, memory: SharedBudget, bounds: BodyBounds): Promise<Body> {
  const { declaredBytes } = source;
  const isTooLarge = declaredBytes > bounds.bytesMax && declaredBytes !== Number.POSITIVE_INFINITY;
  if (isTooLarge) return Promise.reject(bodyRefusal('large', bounds.bytesMax));
  return new Promise((resolve, reject) => {
    new IncomingBody(memory, bounds, declaredBytes, resolve, reject).readFrom(source);
  });
}

function bodyRefusal(fault: BodyFault, bytesMax: number): Refusal {
  if (fault === 'large')
    return new Refusal('large body', `The request body is larger than ${bytesMax} bytes.`);
  if (fault !== 'slow') return memoryRefusal(fault, 'body');
  const message = 'The request body came slower than 8 KiB a second, so it was not waited for. Try again.';
  return new Refusal('slow body', message);
}

/** Its pace is watched from its head on, so that one of which nothing comes is not waited for either. */
class IncomingBody implements Body, BodySink, Timed, HeldBody {
  readonly bytes: ChunkBuffer;
  /** Among those that the ticker asks. */
  index = -1;
  readonly #memory: SharedBudget;
  readonly #bounds: BodyBounds;
  readonly #pace: BodyPace;
  readonly #resolve: (body: Body) => void;
  readonly #reject: (error: Error) => void;
  readonly #bytesMax: number;
  #flow: BodyFlow | undefined;
  #held = 0;
  /** Reserved already, beyond what is held. */
  #granted = 0;
  /** When its turn must have come; undefined while it is not held back. */
  #turnByMs: number | undefined;
  #hadTurn = false;
  #settled = false;
  /** When the present span ends, and what must have come by then. The first span is judged by nothing. */
  #judgedMs: number;
  #bytesWanted = 0;
  #isWarned = false;

  constructor(
    memory: SharedBudget,
    bounds: BodyBounds,
    declared: number,
    resolve: (body: Body) => void,
    reject: (error: Error) => void,
  ) {
    const { bytesMax, pace = slowestPace } = bounds;
    this.#memory = memory;
    this.#bounds = bounds;
    this.#pace = pace;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#bytesMax = Math.min(declared, bytesMax);
    this.bytes = new ChunkBuffer({ reserve: (more) => this.#reserve(more), bytesMax: this.#bytesMax });
    pace.ticker.add(this);
    this.#judgedMs = pace.ticker.nowMs + pace.ms;
  }

  readFrom(source: BodySource): void {
    this.#flow = source.body(this);
  }

  readonly release = (): void => {
    this.#memory.release(this.#held);
    this.#held = 0;
    if (this.#hadTurn) this.#memory.leave(this);
  };

  onPiece(piece: Buffer): void {
    if (this.#settled) return;
    if (this.bytes.length + piece.length > this.#bounds.bytesMax) this.#refuse('large');
    else if (!this.bytes.add(piece)) {
      // With its turn awaited, what was read with this piece is taken as it comes.
      if (!this.#awaitTurn() || !this.bytes.add(piece)) this.#refuse(this.#memory.shortage);
    }
  }

  onEnd(): void {
    if (this.#settled) return;
    this.#settle();
    this.#held = this.bytes.allocatedBytes;
    this.#resolve(this);
  }

  get bytesLeft(): number {
    return this.#bytesMax - this.bytes.allocatedBytes;
  }

  onRoom(): void {
    this.#granted = this.bytesLeft;
    this.#proceed();
    // The wait was not the client's.
    this.#isWarned = false;
    this.#bytesWanted = this.bytes.length + this.#pace.bytes;
    this.#judgedMs = this.#pace.ticker.nowMs + this.#pace.ms;
  }

  onClose(): void {
    if (!this.#settled) this.#fail(new ClientGone('the client did not send its body whole'));
  }

  tick(nowMs: number): void {
    if (this.#turnByMs !== undefined) {
      this.#memory.admit();
      if (this.#turnByMs !== undefined && nowMs >= this.#turnByMs) this.#refuse('share');
      return;
    }
    if (nowMs < this.#judgedMs) return;
    if (this.bytes.length < this.#bytesWanted) {
      // After a stall of this process, what arrived meanwhile is read after this tick.
      if (this.#isWarned) this.#refuse('slow');
      this.#isWarned = true;
      return;
    }
    this.#isWarned = false;
    this.#bytesWanted = this.bytes.length + this.#pace.bytes;
    this.#judgedMs = nowMs + this.#pace.ms;
  }

  #reserve(bytes: number): boolean {
    if (this.#granted >= bytes) {
      this.#granted -= bytes;
      return true;
    }
    const needsNoTurn = this.#bytesMax <= turnlessBytesMax || this.#turnByMs !== undefined;
    return needsNoTurn ? this.#memory.reserveBeyond(bytes) : this.#memory.reserve(bytes);
  }

  /** False where it is not the share that lacks room, or too many wait for theirs. */
  #awaitTurn(): boolean {
    const { turnMsMax = waits.bodyTurn.ms } = this.#bounds;
    if (this.#memory.shortage !== 'share' || this.#hadTurn) return false;
    this.#hadTurn = true;
    this.#turnByMs = this.#pace.ticker.nowMs + turnMsMax;
    this.bytes.growsFast = false;
    this.#flow?.hold();
    return this.#memory.wait(this);
  }

  #proceed(): void {
    this.#turnByMs = undefined;
    this.bytes.growsFast = true;
    this.#flow?.letGo();
  }

  #refuse(fault: BodyFault): void {
    this.#fail(bodyRefusal(fault, this.#bounds.bytesMax));
  }

  #fail(error: Error): void {
    if (this.#settled) return;
    this.#settle();
    this.#memory.release(this.bytes.allocatedBytes);
    this.bytes.clear();
    if (this.#hadTurn) this.#memory.leave(this);
    this.#reject(error);
  }

  #settle(): void {
    this.#settled = true;
    this.#pace.ticker.delete(this);
    if (this.#granted > 0) this.#memory.release(this.#granted);
    this.#granted = 0;
    if (this.#turnByMs === undefined) return;
    this.#proceed();
    this.#memory.leave(this);
  }
}
