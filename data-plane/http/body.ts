/**
 * Reads a request's whole body, bounded in size, memory and the client's pace. If the caller's share has no room, the
 * connection is not read, so TCP slows down the client. Bodies are never logged, or kept after their requests.
 */
import { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import type { HeldBody, MemoryShortage, SharedBudget } from '../../shared/runtime/byte-budget.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { perProcess } from '../../shared/runtime/per-process.ts';
import { Ticker, type Timed } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { memoryRefusal } from '../surfaces/common/memory-refusal.ts';

/** Minimum pace of a body: this many bytes in every period but the first. */
export interface BodyPace {
  readonly bytes: number;
  readonly ms: number;
  /** Checks the pace. */
  readonly ticker: Ticker;
}
/** 8 KiB per second. Most bodies arrive with their head, so their pace never matters. */
const slowestPace = perProcess(
  (): BodyPace => ({ bytes: 80 * 1024, ms: waits.clientBody.ms, ticker: new Ticker(1000) }),
);

/** Bodies up to this size never wait behind larger ones, because they are parsed and released at once. */
const turnlessBytesMax = 256 * 1024;

/** The reason that a body was not read to its end. */
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

/** Receives a body as it arrives. `onClose` comes last, even after the end. */
export interface BodySink {
  onPiece(piece: Buffer): void;
  onEnd(): void;
  onClose(): void;
}

export interface BodyFlow {
  /** Stops reading until `letGo`. Bytes that were already read are still delivered. */
  hold(): void;
  letGo(): void;
}

/** A request whose body has not been requested yet. */
export interface BodySource {
  /** Declared length. Infinite for a chunked body. */
  readonly declaredBytes: number;
  /** Requests the body. The sink receives nothing during this call. */
  body(sink: BodySink): BodyFlow;
}

/**
 * Rejects with PayloadTooLargeError, ClientGone, or InferenceUnavailableError if memory runs out, the body's turn does not
 * come in time, or the client is too slow. A body whose declared length is too large is never requested.
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
  const message = 'The request body arrived more slowly than 8 KiB per second. Try again.';
  return new Refusal('slow body', message);
}

/** A body being read. Its pace is measured from the head on, so a body that never begins times out too. */
class IncomingBody implements Body, BodySink, Timed, HeldBody {
  readonly bytes: ChunkBuffer;
  /** Index among the objects that the ticker calls. */
  index = -1;
  readonly #memory: SharedBudget;
  readonly #bounds: BodyBounds;
  readonly #pace: BodyPace;
  readonly #resolve: (body: Body) => void;
  readonly #reject: (error: Error) => void;
  readonly #bytesMax: number;
  #flow: BodyFlow | undefined;
  #held = 0;
  /** Bytes already reserved, beyond those that are buffered. */
  #granted = 0;
  /** Deadline for the body's turn. Undefined unless the body waits for it. */
  #turnByMs: number | undefined;
  #hadTurn = false;
  #settled = false;
  /** End of the current period, and the length required by then. The first period requires nothing. */
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
    const { bytesMax, pace = slowestPace() } = bounds;
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
      // While the body awaits its turn, the remaining bytes of this read are still accepted.
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
    // The client did not cause the wait, so its pace is measured anew.
    this.#isWarned = false;
    this.#bytesWanted = this.bytes.length + this.#pace.bytes;
    this.#judgedMs = this.#pace.ticker.nowMs + this.#pace.ms;
  }

  onClose(): void {
    if (!this.#settled) this.#fail(new ClientGone('the client did not send its whole body'));
  }

  tick(nowMs: number): void {
    if (this.#turnByMs !== undefined) {
      this.#memory.admit();
      if (this.#turnByMs !== undefined && nowMs >= this.#turnByMs) this.#refuse('share');
      return;
    }
    if (nowMs < this.#judgedMs) return;
    if (this.bytes.length < this.#bytesWanted) {
      // After a stall, bytes that arrived meanwhile are read only after this tick. So the first miss is a warning.
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

  /** Returns false if something other than the share is short, or if too many bodies already wait. */
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
