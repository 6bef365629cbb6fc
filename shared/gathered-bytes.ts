/**
 * Bytes that arrive in pieces, copied together into few blocks of memory. A peer chooses how it cuts its bytes; one that
 * sends them one by one makes no object here for each. What is held is known at any time, and can be charged to a budget.
 */

/** The smallest and the largest block; between them a further block is as large as all that came before it. */
const blockBytesMin = 4 * 1024;
const blockBytesMax = 256 * 1024;

export interface GatheredBytesOptions {
  /** Asked before a block is made; false refuses it, and with it the piece. */
  readonly take?: (bytes: number) => boolean;
  /** The most that will be added; no block is made larger than what is left of it. */
  readonly bytesMax?: number;
}

export class GatheredBytes {
  readonly #take: (bytes: number) => boolean;
  readonly #bytesMax: number;
  #blocks: Buffer[] = [];
  /** Bytes of the last block that are not used yet. */
  #free = 0;
  #length = 0;
  #held = 0;
  /** The first block is the piece itself, and its memory may be known elsewhere. */
  #isFirstBorrowed = false;

  constructor({ take = () => true, bytesMax = Number.POSITIVE_INFINITY }: GatheredBytesOptions = {}) {
    this.#take = take;
    this.#bytesMax = bytesMax;
  }

  /** Bytes added so far. */
  get length(): number {
    return this.#length;
  }

  /** Bytes of memory taken for them. */
  get heldBytes(): number {
    return this.#held;
  }

  /** False where it does not fit; nothing of the piece was added then. */
  add(piece: Buffer): boolean {
    const { length } = piece;
    if (length === 0) return true;
    if (this.#length + length > this.#bytesMax) return false;
    if (this.#length === 0 && length === piece.buffer.byteLength) return this.#borrow(piece);
    const fits = Math.min(this.#free, length);
    if (fits < length && !this.#addBlock(length - fits)) return false;
    const last = this.#blocks[this.#blocks.length - 1] as Buffer;
    if (fits === length) {
      piece.copy(last, last.length - this.#free);
      this.#free -= length;
    } else {
      const before = this.#blocks[this.#blocks.length - 2];
      if (before !== undefined && fits > 0) piece.copy(before, before.length - fits, 0, fits);
      piece.copy(last, 0, fits);
      this.#free = last.length - (length - fits);
    }
    this.#length += length;
    return true;
  }

  /** All of them in one piece, which is not to be written to. */
  whole(): Buffer {
    const [first] = this.#blocks;
    if (first === undefined) return Buffer.alloc(0);
    if (this.#blocks.length === 1) return first.subarray(0, this.#length);
    return Buffer.concat(this.#blocks, this.#length);
  }

  /** The blocks, each with memory of its own that may be handed to another thread. Nothing is held here any more. */
  handOver(): Uint8Array<ArrayBuffer>[] {
    const blocks = this.#blocks.map((block) => new Uint8Array(block.buffer as ArrayBuffer, 0, block.length));
    const [first] = blocks;
    if (first !== undefined && this.#isFirstBorrowed) blocks[0] = first.slice();
    const last = blocks.pop();
    if (last !== undefined) blocks.push(last.subarray(0, last.length - this.#free));
    this.clear();
    return blocks;
  }

  /** Holds nothing any more. The budget is the owner's to settle, by what was held. */
  clear(): void {
    this.#blocks = [];
    this.#free = 0;
    this.#length = 0;
    this.#held = 0;
    this.#isFirstBorrowed = false;
  }

  /** A body that comes in one piece is not copied. */
  #borrow(piece: Buffer): boolean {
    if (!this.#take(piece.length)) return false;
    this.#blocks.push(piece);
    this.#isFirstBorrowed = true;
    this.#length = piece.length;
    this.#held = piece.length;
    return true;
  }

  #addBlock(bytesNeeded: number): boolean {
    const grown = Math.min(blockBytesMax, Math.max(blockBytesMin, this.#length));
    const room = this.#bytesMax - this.#length - this.#free;
    const bytes = Math.max(bytesNeeded, Math.min(grown, room));
    if (!this.#take(bytes)) return false;
    this.#held += bytes;
    this.#blocks.push(Buffer.allocUnsafeSlow(bytes));
    return true;
  }
}
