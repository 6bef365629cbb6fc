/**
 * Accounts for text that a stream must hold until its end, in blocks, to its organisation's memory. A node may write without
 * end, and one organisation must not use up the memory of all. The creator must release it on every path.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { UnheldAnswer } from './memory-refusal.ts';

/** Bounds of a block. Each new block doubles the charge, so that there are few charges. */
const blockBytesMin = 4 * 1024;
const blockBytesMax = 256 * 1024;
/** Bytes per character outside Latin scripts. */
const bytesEach = 2;

/** Length of the value's JSON without the outer quotes or brackets. A control character takes six characters. */
export function renderedLength(value: string | readonly object[]): number {
  return JSON.stringify(value).length - 2;
}

export class HeldText {
  readonly #memory: MemoryBudget;
  #heldBytes = 0;
  #chargedBytes = 0;

  constructor(memory: MemoryBudget) {
    this.#memory = memory;
  }

  /** Throws UnheldAnswer if there is not enough memory. */
  add(characters: number): void {
    this.#heldBytes += characters * bytesEach;
    if (this.#heldBytes > this.#chargedBytes) this.#charge();
  }

  /** Charges the text `times` more times, for the copies that are written for a client that may read slowly. */
  repeat(times: number): void {
    this.add((this.#heldBytes / bytesEach) * times);
  }

  /** Idempotent. */
  release(): void {
    if (this.#chargedBytes > 0) this.#memory.release(this.#chargedBytes);
    this.#chargedBytes = 0;
    this.#heldBytes = 0;
  }

  #charge(): void {
    const missing = this.#heldBytes - this.#chargedBytes;
    const block = Math.min(blockBytesMax, Math.max(blockBytesMin, this.#chargedBytes));
    const bytes = Math.max(missing, block);
    if (!this.#memory.reserve(bytes)) throw new UnheldAnswer(this.#memory.shortage);
    this.#chargedBytes += bytes;
  }
}
