/**
 * Charges the organisation's memory budget for the text that a stream holds until its end. A node may stream without end, and
 * one organisation must not use up the memory of all. Whoever creates an object of this class must release it on every path.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { UnheldAnswer } from './memory-refusal.ts';

/** Smallest and largest charge in bytes. Each charge doubles the total until the largest is reached, so there are few. */
const blockBytesMin = 4 * 1024;
const blockBytesMax = 256 * 1024;
/** Number of bytes that one character of non-Latin text takes in memory. */
const bytesEach = 2;

/** Length of a value written as JSON, without its outer quotes or brackets. A control character counts as six. */
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

  /** Charges for the given number of characters. Throws `UnheldAnswer` if the budget does not allow it. */
  add(characters: number): void {
    this.#heldBytes += characters * bytesEach;
    if (this.#heldBytes > this.#chargedBytes) this.#charge();
  }

  /** Charges all held text `times` more, because the stream's end repeats it that often and the client may read slowly. */
  repeat(times: number): void {
    this.add((this.#heldBytes / bytesEach) * times);
  }

  /** Returns all charged memory to the budget. May be called more than once. */
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
