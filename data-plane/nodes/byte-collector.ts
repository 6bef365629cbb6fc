/**
 * Gathers a body of a node that is wanted whole, within a bound of its own and the memory that it is charged to.
 * Its creator releases it, on every path.
 */

import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';

export class ByteCollector {
  readonly #memory: MemoryBudget;
  readonly #bytesMax: number;
  readonly #bytes: ChunkBuffer;
  #charged = 0;
  #isTooLarge = false;

  constructor(memory: MemoryBudget, bytesMax: number) {
    this.#memory = memory;
    this.#bytesMax = bytesMax;
    this.#bytes = new ChunkBuffer({ bytesMax, reserve: (bytes) => this.#reserve(bytes) });
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** The body itself is larger than it may be; where it is not, memory was what it did not fit. */
  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  /** False where it does not fit; nothing more is to be added then. */
  add(piece: Buffer): boolean {
    this.#isTooLarge = this.#bytes.length + piece.length > this.#bytesMax;
    return !this.#isTooLarge && this.#bytes.add(piece);
  }

  /** All of it in one piece. */
  whole(): Buffer {
    return this.#bytes.whole();
  }

  /** The blocks for another thread. They stay charged until the release. */
  handOver(): Uint8Array<ArrayBuffer>[] {
    return this.#bytes.detach();
  }

  /** Releases the memory. Idempotent. */
  release(): void {
    this.#memory.release(this.#charged);
    this.#charged = 0;
    this.#bytes.clear();
  }

  #reserve(bytes: number): boolean {
    if (!this.#memory.reserve(bytes)) return false;
    this.#charged += bytes;
    return true;
  }
}

/** Whether a content type means JSON, whatever its parameters. */
export function isJsonType(contentType: string): boolean {
  return /^application\/json\s*(;|$)/i.test(contentType);
}

export function isEventStreamType(contentType: string): boolean {
  return /^text\/event-stream\s*(;|$)/i.test(contentType);
}
