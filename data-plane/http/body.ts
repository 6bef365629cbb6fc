/**
 * Reads the body of a request completely. Limits its size, its memory and the time that the client takes. If the caller has
 * used up its share of the memory for bodies, the connection is not read, so that TCP slows down the client. Bodies are never
 * logged, and never kept longer than their requests.
 */
import { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import type { HeldBody, MemoryShortage, SharedBudget } from '../../shared/runtime/byte-budget.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { perProcess } from '../../shared/runtime/per-process.ts';
import { Ticker, type Timed } from '../../shared/runtime/ticker.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { memoryRefusal } from '../surfaces/common/memory-refusal.ts';

/** Minimum speed of a body: `bytes` in every period of `ms`, except the first. */
export interface BodyPace {
  readonly bytes: number;
  readonly ms: number;
  /** Ticker that starts each check of the speed. */
  readonly ticker: Ticker;
}
/** Default minimum speed, 8 KiB per second. It rarely matters, because most bodies arrive together with their head. */
const slowestPace = perProcess(
  (): BodyPace => ({ bytes: 80 * 1024, ms: waits.clientBody.ms, ticker: new Ticker(1000) }),
);

/** Size in bytes up to which a body need not wait its turn. Such small bodies are parsed and released at once. */
const turnlessBytesMax = 256 * 1024;

type BodyFault = 'large' | 'slow' | MemoryShortage;

interface BodyBounds {
  readonly bytesMax: number;
  readonly pace?: BodyPace | undefined;
  /** Maximum time in ms that a body waits for memory in its caller's share of the budget. */
  readonly turnMsMax?: number | undefined;
}

export interface Body {
  readonly bytes: ChunkBuffer;
  /** Releases the memory of the body. May be called more than once. */
  release(): void;
}

/** Receives the parts of a body as they arrive. `onClose` is called last, even if the body was complete. */
export interface BodySink {
  onPiece(piece: Buffer): void;
  onEnd(): void;
  onClose(): void;
}

export interface BodyFlow {
  /** Stops reading until `letGo` is called. Bytes that have already been read are still delivered. */
  hold(): void;
  letGo(): void;
}

/** A request whose body can be read. */
export interface BodySource {
  /** Length of the body as declared in the head, or infinity if the body is chunked. */
  readonly declaredBytes: number;
  /** Begins to read the body. Nothing is delivered to the sink before this method has returned. */
  body(sink: BodySink): BodyFlow;
}

/**
 * Reads a body. Rejects with `PayloadTooLargeError` or `ClientGone`, or with `InferenceUnavailableError` if memory runs out,
 * the body has waited too long for memory, or the client is too slow. If the declared length is too large, the body is not
 * read at all.
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

/** A body that is being read. Its speed is measured from the end of the head, so a body that never begins also times out. */
class IncomingBody implements Body, BodySink, Timed, HeldBody {
  readonly bytes: ChunkBuffer;
  /** Position in the ticker's list, which the ticker sets. */
  index = -1;
  readonly #memory: SharedBudget;
  readonly #bounds: BodyBounds;
  readonly #pace: BodyPace;
  readonly #resolve: (body: Body) => void;
  readonly #reject: (error: Error) => void;
  readonly #bytesMax: number;
  #flow: BodyFlow | undefined;
  #held = 0;
  /** Number of bytes that were granted to this body but not used yet. */
  #granted = 0;
  /** Time until which the body may wait for memory, or undefined if it is not waiting. */
  #turnByMs: number | undefined;
  #hadTurn = false;
  #settled = false;
  /** Time at which the speed is checked next, and the number of bytes that must have arrived by then (0 the first time). */
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
      // Accept bytes that have already been read, even if the body has to wait for memory from now on.
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
    // The wait for memory was not the client's fault, so measure the client's speed from now on.
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
      // Only warn the first time, because after a stall of this process, bytes may have arrived that were not read yet.
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

  /** Makes the body wait for memory. Returns false if waiting cannot help or if too many bodies are already waiting. */
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
