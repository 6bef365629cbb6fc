/** Limits the memory used for buffered bodies, both in total and per caller, so that no single caller can exhaust it. */
import { withinMemory } from './memory-limit.ts';

const allBytesMax = 512 * 1024 * 1024;
/** Number of shares into which all memory for bodies is divided. A caller may use one share. */
const shares = 8;
/** Number of callers without bodies that stay in the map. Removing and adding them at each request would be costly. */
const idleOwnersMax = 1000;
/** Maximum number of waiting bodies per caller. The bytes already read for them take less than half a share. */
const waitingMax = 400;

/** Limit that was reached: the memory for all bodies, or the caller's share of it. */
export type MemoryShortage = 'memory' | 'share';

/** A budget from which bytes are reserved. Callers must release everything that they reserve. */
export interface MemoryBudget {
  /** Reserves bytes. Returns false and reserves nothing if the budget would be exceeded. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /** Reason why `reserve` last returned false. */
  readonly shortage: MemoryShortage;
}

/** A body whose reading is paused until its caller's share of memory has room for it. */
export interface HeldBody {
  /** Number of bytes that the body may still need. */
  readonly bytesLeft: number;
  /** Called once `bytesLeft` bytes have been reserved for the body. */
  onRoom(): void;
}

/** Memory budget for one body. The body can wait for room in its caller's share. */
export interface SharedBudget extends MemoryBudget {
  /** Lets the body wait for room. May call `onRoom` immediately. Returns false if too many bodies are waiting already. */
  wait(body: HeldBody): boolean;
  /** Call it when the body has ended or no longer needs room. Further calls have no effect. */
  leave(body: HeldBody): void;
  /** Reserves up to twice the caller's share, even if other bodies wait. Use it for small bodies and bytes already read. */
  reserveBeyond(bytes: number): boolean;
  /** Tries again to admit this caller's waiting bodies, because other callers may have released memory. */
  admit(): void;
}

class Share {
  usedBytes = 0;
  /** Waiting bodies of one caller, in order of arrival. */
  readonly waiting: HeldBody[] = [];
  /** The only body that may exceed its caller's share. Without it, bodies could wait for each other's memory forever. */
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

  /** Number of bytes that are currently reserved. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Number of bodies that are currently paused. */
  get waiting(): number {
    let sum = 0;
    for (const { waiting } of this.#shares.values()) sum += waiting.length;
    return sum;
  }

  /** Returns the budget for one body of this caller. */
  of(owner: string): SharedBudget {
    return new OwnBudget(this, owner);
  }

  /** Reserves bytes for a caller. `spent` means that the caller's share is exhausted, `refused` that all memory is. */
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

  /** Admits a caller's waiting bodies in order, each as soon as there is room for everything that it may need. */
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
    // Raise the number of callers that stay, so that a map with many active ones is not searched at every release.
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
