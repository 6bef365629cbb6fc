/** Collects a stream's chunks in a few large blocks, so that a stream of single bytes does not allocate many objects. */

/** Sizes in bytes of the smallest and largest block. Each new block doubles the capacity, so few blocks are needed. */
const blockBytesMin = 4 * 1024;
const blockBytesMax = 256 * 1024;

export interface ChunkBufferOptions {
  /** Called with a block's size before the block is allocated. If it returns false, the chunk is not added. */
  readonly reserve?: (bytes: number) => boolean;
  /** Maximum total length in bytes. Blocks are never larger than the remaining room. */
  readonly bytesMax?: number;
}

export class ChunkBuffer {
  /** Whether blocks grow with the length. Otherwise they have the smallest size, or that of a larger chunk. */
  growsFast = true;
  readonly #reserve: (bytes: number) => boolean;
  readonly #bytesMax: number;
  #blocks: Buffer[] = [];
  /** Number of unused bytes at the end of the last block. */
  #free = 0;
  #length = 0;
  #allocated = 0;
  /** Whether the first block is the first chunk itself rather than a copy. Other code may then share its memory. */
  #isFirstBorrowed = false;

  constructor({ reserve = () => true, bytesMax = Number.POSITIVE_INFINITY }: ChunkBufferOptions = {}) {
    this.#reserve = reserve;
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#length;
  }

  /** Number of bytes allocated, whether used or not. */
  get allocatedBytes(): number {
    return this.#allocated;
  }

  /** Adds a chunk. Returns false and adds nothing if there is no room for it. */
  add(chunk: Buffer): boolean {
    const { length } = chunk;
    if (length === 0) return true;
    if (this.#length + length > this.#bytesMax) return false;
    if (this.#length === 0 && length === chunk.buffer.byteLength) return this.#borrow(chunk);
    const fits = Math.min(this.#free, length);
    if (fits < length && !this.#addBlock(length - fits)) return false;
    const last = this.#blocks[this.#blocks.length - 1] as Buffer;
    if (fits === length) {
      chunk.copy(last, last.length - this.#free);
      this.#free -= length;
    } else {
      const before = this.#blocks[this.#blocks.length - 2];
      if (before !== undefined && fits > 0) chunk.copy(before, before.length - fits, 0, fits);
      chunk.copy(last, 0, fits);
      this.#free = last.length - (length - fits);
    }
    this.#length += length;
    return true;
  }

  /** Returns all bytes in one buffer. Do not write to it, because it may share memory with this object. */
  whole(): Buffer {
    const [first] = this.#blocks;
    if (first === undefined) return Buffer.alloc(0);
    if (this.#blocks.length === 1) return first.subarray(0, this.#length);
    return Buffer.concat(this.#blocks, this.#length);
  }

  /** Empties this object and returns its blocks. Each has its own `ArrayBuffer`, so it can be transferred to a worker. */
  detach(): Uint8Array<ArrayBuffer>[] {
    const blocks = this.#blocks.map((block) => new Uint8Array(block.buffer as ArrayBuffer, 0, block.length));
    const [first] = blocks;
    if (first !== undefined && this.#isFirstBorrowed) blocks[0] = first.slice();
    const last = blocks.pop();
    if (last !== undefined) blocks.push(last.subarray(0, last.length - this.#free));
    this.clear();
    return blocks;
  }

  /** Drops all blocks. The caller must first release `allocatedBytes` from its budget. */
  clear(): void {
    this.#blocks = [];
    this.#free = 0;
    this.#length = 0;
    this.#allocated = 0;
    this.#isFirstBorrowed = false;
  }

  /** Uses the chunk itself as the first block, so that a body that arrives in one chunk is not copied. */
  #borrow(chunk: Buffer): boolean {
    if (!this.#reserve(chunk.length)) return false;
    this.#blocks.push(chunk);
    this.#isFirstBorrowed = true;
    this.#length = chunk.length;
    this.#allocated = chunk.length;
    return true;
  }

  #addBlock(bytesNeeded: number): boolean {
    const grown = this.growsFast
      ? Math.min(blockBytesMax, Math.max(blockBytesMin, this.#length))
      : blockBytesMin;
    const room = this.#bytesMax - this.#length - this.#free;
    const bytes = Math.max(bytesNeeded, Math.min(grown, room));
    if (!this.#reserve(bytes)) return false;
    this.#allocated += bytes;
    this.#blocks.push(Buffer.allocUnsafeSlow(bytes));
    return true;
  }
}
