/** Collects the body of a node's response within bounds. Whoever creates a collector must release it on every path. */

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

  /** Whether the body exceeds its size limit. If `add` has failed although it does not, memory ran out. */
  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  /** Adds a part of the body. Returns false if the part does not fit. After that, nothing more may be added. */
  add(piece: Buffer): boolean {
    this.#isTooLarge = this.#bytes.length + piece.length > this.#bytesMax;
    return !this.#isTooLarge && this.#bytes.add(piece);
  }

  whole(): Buffer {
    return this.#bytes.whole();
  }

  /** Hands the collected parts over to another thread. Their memory stays charged until `release` is called. */
  takeChunks(): Uint8Array<ArrayBuffer>[] {
    return this.#bytes.detach();
  }

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

/** Whether a content type is `application/json`, with any parameters. */
export function isJsonType(contentType: string): boolean {
  return /^application\/json\s*(;|$)/i.test(contentType);
}

export function isEventStreamType(contentType: string): boolean {
  return /^text\/event-stream\s*(;|$)/i.test(contentType);
}
