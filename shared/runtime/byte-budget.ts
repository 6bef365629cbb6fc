/**
 * Bounds the memory of buffered bodies, in total and for each caller. The share of a caller keeps one with many connections
 * from exhausting the memory of all others. A body that can be held back waits for room in its caller's share, in turn.
 */
import { withinMemory } from './memory-limit.ts';

const allBytesMax = 512 * 1024 * 1024;
/** A caller may use one share of the total. */
const shares = 8;
/** Owners are kept at zero up to so many: a map that loses and gets an entry with each request is reallocated again and again. */
const idleOwnersMax = 1000;
/** Bodies of one owner that wait at a time: with what each has read already they hold less than half a share. */
const waitingMax = 400;

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

/** A body that is held back. */
export interface HeldBody {
  /** What it may still come to need, bytes. */
  readonly bytesLeft: number;
  /** So much is reserved for it now. */
  onRoom(): void;
}

/** The budget of one body of a caller, which can wait for room in the caller's share. */
export interface SharedBudget extends MemoryBudget {
  /** Joins the queue; `onRoom` may be called at once. False where too many wait already. */
  wait(body: HeldBody): boolean;
  /** The body is over, or needs no room any more. Idempotent. */
  leave(body: HeldBody): void;
  /** Up to twice the share, also while others wait: for small bodies, and for what was read already when a body was held back. */
  reserveBeyond(bytes: number): boolean;
  /** Looks for room again: that of all may have come back without that of the share. */
  admit(): void;
}

class Share {
  usedBytes = 0;
  /** In order of arrival. */
  readonly waiting: HeldBody[] = [];
  /** The one body that may exceed the share, so that bodies which wait for each other's memory never stand still. */
  beyond: HeldBody | undefined;
}

export class BodyBudget implements MemoryBudget {
  readonly shortage = 'memory';
  readonly #bytesMax: number;
  readonly #shareBytesMax: number;
  readonly #shares = new Map<string, Share>();
  #usedBytes = 0;
  #ownersMax = idleOwnersMax;

  constructor(bytesMax = withinMemory(allBytesMax), shareBytesMax = Math.floor(bytesMax / shares)) {
    this.#bytesMax = bytesMax;
    this.#shareBytesMax = shareBytesMax;
  }

  /** Bytes reserved now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Bodies held back now. */
  get waiting(): number {
    let sum = 0;
    for (const { waiting } of this.#shares.values()) sum += waiting.length;
    return sum;
  }

  /** The budget of one body of a caller. */
  of(owner: string): SharedBudget {
    return new OwnBudget(this, owner);
  }

  /** Of an owner's share: `spent` where only the share does not allow it. */
  reserveFor(owner: string, bytes: number): 'reserved' | 'refused' | 'spent' {
    const share = this.#findShare(owner);
    if (share.usedBytes + bytes > this.#shareBytesMax || share.waiting.length > 0) return 'spent';
    return this.#take(share, bytes) ? 'reserved' : 'refused';
  }

  reserveBeyond(owner: string, bytes: number): 'reserved' | 'refused' | 'spent' {
    const share = this.#findShare(owner);
    if (share.usedBytes + bytes > 2 * this.#shareBytesMax) return 'spent';
    return this.#take(share, bytes) ? 'reserved' : 'refused';
  }

  releaseFor(owner: string, bytes: number): void {
    this.release(bytes);
    const share = this.#findShare(owner);
    share.usedBytes -= bytes;
    if (share.waiting.length > 0) this.#admit(share);
    else if (share.usedBytes <= 0 && this.#shares.size > this.#ownersMax) this.#forgetIdle();
  }

  waitFor(owner: string, body: HeldBody): boolean {
    const share = this.#findShare(owner);
    if (share.waiting.length >= waitingMax) return false;
    share.waiting.push(body);
    this.#admit(share);
    return true;
  }

  leaveFor(owner: string, body: HeldBody): void {
    const share = this.#findShare(owner);
    const index = share.waiting.indexOf(body);
    if (index >= 0) share.waiting.splice(index, 1);
    if (share.beyond === body) share.beyond = undefined;
    this.#admit(share);
  }

  admitOf(owner: string): void {
    this.#admit(this.#findShare(owner));
  }

  reserve(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.#bytesMax) return false;
    this.#usedBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes;
  }

  #take(share: Share, bytes: number): boolean {
    if (!this.reserve(bytes)) return false;
    share.usedBytes += bytes;
    return true;
  }

  /** Those that wait continue in their order, each once there is room for all that it may need. */
  #admit(share: Share): void {
    for (;;) {
      const first = share.waiting[0];
      if (first === undefined) return;
      const bytes = first.bytesLeft;
      const fits = share.usedBytes + bytes <= this.#shareBytesMax;
      if (!fits && (share.beyond !== undefined || share.usedBytes + bytes > 2 * this.#shareBytesMax)) return;
      if (!this.#take(share, bytes)) return;
      if (!fits) share.beyond = first;
      share.waiting.shift();
      first.onRoom();
    }
  }

  #findShare(owner: string): Share {
    let share = this.#shares.get(owner);
    if (share === undefined) {
      share = new Share();
      this.#shares.set(owner, share);
    }
    return share;
  }

  #forgetIdle(): void {
    for (const [owner, { usedBytes, waiting }] of this.#shares)
      if (usedBytes === 0 && waiting.length === 0) this.#shares.delete(owner);
    // So that many owners in use are not walked each time.
    this.#ownersMax = Math.max(idleOwnersMax, 2 * this.#shares.size);
  }
}

class OwnBudget implements SharedBudget {
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
    return this.#note(this.#all.reserveFor(this.#owner, bytes));
  }

  reserveBeyond(bytes: number): boolean {
    return this.#note(this.#all.reserveBeyond(this.#owner, bytes));
  }

  release(bytes: number): void {
    this.#all.releaseFor(this.#owner, bytes);
  }

  wait(body: HeldBody): boolean {
    return this.#all.waitFor(this.#owner, body);
  }

  leave(body: HeldBody): void {
    this.#all.leaveFor(this.#owner, body);
  }

  admit(): void {
    this.#all.admitOf(this.#owner);
  }

  #note(result: 'reserved' | 'refused' | 'spent'): boolean {
    this.#shortage = result === 'spent' ? 'share' : 'memory';
    return result === 'reserved';
  }
}
