/**
 * Bounds the memory of buffered bodies, in total and for each organisation. The share of an organisation keeps one tenant
 * with many connections from exhausting the memory of all others.
 */
import { Refusal } from '../../shared/decision/refusal.ts';

const allBytesMax = 512 * 1024 * 1024;
/** An organisation may use one share of the total. */
const shares = 8;
/** Owners are kept at zero up to so many: a map that loses and gets an entry with each request is reallocated again and again. */
const idleOwnersMax = 1000;

/** Each reservation must be released. */
export interface MemoryBudget {
  /** False where the budget is exceeded; then nothing is reserved. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /** The error for the client, after the last `reserve` returned false. */
  refusal(): Refusal;
}

export class BodyBudget implements MemoryBudget {
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

  /** The budget of one organisation or visitor. */
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

  refusal(): Refusal {
    const message = 'The service holds too many bodies of requests and answers now. Try again.';
    return new Refusal('InferenceUnavailableError', message, { reason: 'body budget' });
  }
}

class OwnBudget implements MemoryBudget {
  readonly #all: BodyBudget;
  readonly #owner: string;
  #isShareSpent = false;

  constructor(all: BodyBudget, owner: string) {
    this.#all = all;
    this.#owner = owner;
  }

  reserve(bytes: number): boolean {
    const result = this.#all.reserveFor(this.#owner, bytes);
    this.#isShareSpent = result === 'spent';
    return result === 'reserved';
  }

  release(bytes: number): void {
    this.#all.releaseFor(this.#owner, bytes);
  }

  refusal(): Refusal {
    return this.#isShareSpent ? shareSpent() : this.#all.refusal();
  }
}

function shareSpent(): Refusal {
  const message =
    'The bodies of your organisation’s requests take all the memory that one organisation may have at a time. Try again once one of them is done.';
  return new Refusal('InferenceUnavailableError', message, { reason: 'body budget of the organisation' });
}
