/** Collects a node's whole response body, within bounds. Its creator must release the collector on every path. */

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

  /** Whether the body exceeds its own size limit. If `add` failed and this is false, memory ran out. */
  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  /** Returns false if the piece does not fit. The caller must then add nothing more. */
  add(piece: Buffer): boolean {
    this.#isTooLarge = this.#bytes.length + piece.length > this.#bytesMax;
    return !this.#isTooLarge && this.#bytes.add(piece);
  }

  /** The whole body as one buffer. */
  whole(): Buffer {
    return this.#bytes.whole();
  }

  /** Detaches the blocks for another thread. Their memory stays charged until `release`. */
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

/** Whether a content type is JSON, whatever its parameters. */
export function isJsonType(contentType: string): boolean {
  return /^application\/json\s*(;|$)/i.test(contentType);
}

export function isEventStreamType(contentType: string): boolean {
  return /^text\/event-stream\s*(;|$)/i.test(contentType);
}
