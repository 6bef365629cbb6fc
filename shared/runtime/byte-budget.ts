/**
 * Bounds the memory of buffered bodies, in total and for each caller. The share of a caller keeps one with many connections
 * from exhausting the memory of all others.
 */

const allBytesMax = 512 * 1024 * 1024;
/** A caller may use one share of the total. */
const shares = 8;
/** Owners are kept at zero up to so many: a map that loses and gets an entry with each request is reallocated again and again. */
const idleOwnersMax = 1000;

/** What there is too little of: memory for all bodies, or of the caller's share. */
export type MemoryShortage = 'memory' | 'share';

/** Each reservation must be released. */
export interface MemoryBudget {
  /** False where the budget is exceeded; then nothing is reserved. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /** Why the last `reserve` returned false. */
  readonly shortage: MemoryShortage;
}

export class BodyBudget implements MemoryBudget {
  readonly shortage = 'memory';
  readonly #bytesMax: number;
  readonly #shareBytesMax: number;
  readonly #usedByOwner = new Map<string, number>();
  #usedBytes = 0;
  #ownersMax = idleOwnersMax;

  constructor(bytesMax = allBytesMax, shareBytesMax = Math.floor(bytesMax / shares)) {
    this.#bytesMax = bytesMax;
    this.#shareBytesMax = shareBytesMax;
  }

  /** Bytes reserved now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The budget of one caller. */
  of(owner: string): MemoryBudget {
    return new OwnBudget(this, owner);
  }

  /** Of an owner's share: `spent` where only the share does not allow it. */
  reserveFor(owner: string, bytes: number): 'reserved' | 'refused' | 'spent' {
    const used = (this.#usedByOwner.get(owner) ?? 0) + bytes;
    if (used > this.#shareBytesMax) return 'spent';
    if (!this.reserve(bytes)) return 'refused';
    this.#usedByOwner.set(owner, used);
    return 'reserved';
  }

  releaseFor(owner: string, bytes: number): void {
    this.release(bytes);
    const left = (this.#usedByOwner.get(owner) ?? 0) - bytes;
    this.#usedByOwner.set(owner, Math.max(left, 0));
    if (left <= 0 && this.#usedByOwner.size > this.#ownersMax) this.#forgetIdle();
  }

  #forgetIdle(): void {
    for (const [owner, used] of this.#usedByOwner) if (used === 0) this.#usedByOwner.delete(owner);
    // So that many owners in use are not walked each time.
    this.#ownersMax = Math.max(idleOwnersMax, 2 * this.#usedByOwner.size);
  }

  reserve(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.#bytesMax) return false;
    this.#usedBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}

class OwnBudget implements MemoryBudget {
  readonly #all: BodyBudget;
  readonly #owner: string;
  #shortage: MemoryShortage = 'memory';

  constructor(all: BodyBudget, owner: string) {
    this.#all = all;
    this.#owner = owner;
  }

  get shortage(): MemoryShortage {
    return this.#shortage;
  }

  reserve(bytes: number): boolean {
    const result = this.#all.reserveFor(this.#owner, bytes);
    this.#shortage = result === 'spent' ? 'share' : 'memory';
    return result === 'reserved';
  }

  release(bytes: number): void {
    this.#all.releaseFor(this.#owner, bytes);
  }
}
