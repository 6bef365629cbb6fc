/** Limits the memory of buffered bodies, in total and per caller, so that no caller with many connections exhausts it. */
import { withinMemory } from './memory-limit.ts';

const allBytesMax = 512 * 1024 * 1024;
/** Number of shares that make up the total; a caller may use one. */
const shares = 8;
/** Idle owners that stay in the map. If entries came and went with each request, it would often be reallocated. */
const idleOwnersMax = 1000;
/** Maximum number of waiting bodies per owner. What they have already read takes less than half a share. */
const waitingMax = 400;

/** The limit that was reached: the memory of all bodies, or the caller's share. */
export type MemoryShortage = 'memory' | 'share';

/** A budget from which bytes are reserved. The caller must release every reservation. */
export interface MemoryBudget {
  /** Returns false and reserves nothing if the budget would be exceeded. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
  /** The reason why the last `reserve` returned false. */
  readonly shortage: MemoryShortage;
}

/** A body whose reading is paused until there is room. */
export interface HeldBody {
  /** Bytes that the body may still need. */
  readonly bytesLeft: number;
  /** Called once `bytesLeft` bytes have been reserved for the body. */
  onRoom(): void;
}

/** The budget of one body of a caller, which can wait for room in the caller's share. */
export interface SharedBudget extends MemoryBudget {
  /** Joins the queue; may call `onRoom` at once. Returns false if too many bodies are waiting already. */
  wait(body: HeldBody): boolean;
  /** Call it when the body has ended or no longer needs room. Idempotent. */
  leave(body: HeldBody): void;
  /** Reserves up to twice the share, even while others wait: for small bodies, and for bytes that were already read. */
  reserveBeyond(bytes: number): boolean;
  /** Tries again to admit waiting bodies, because the total may have room again although the share released none. */
  admit(): void;
}

class Share {
  usedBytes = 0;
  /** Waiting bodies in order of arrival. */
  readonly waiting: HeldBody[] = [];
  /** The one body that may exceed the share, which prevents a deadlock of bodies that wait for each other's memory. */
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

  /** Bytes that are currently reserved. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Number of bodies that are currently paused. */
  get waiting(): number {
    let sum = 0;
    for (const { waiting } of this.#shares.values()) sum += waiting.length;
    return sum;
  }

  /** The budget of one body of a caller. */
  of(owner: string): SharedBudget {
    return new OwnBudget(this, owner);
  }

  /** Reserves bytes from an owner's share. `spent` means that only the share is exhausted. */
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

  /** Admits waiting bodies in their order, each once there is room for everything that it may need. */
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
    // Otherwise every release would walk the map if it contains many active owners.
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
