/**
 * What a stream has to hold until its end, charged to the memory of its organisation in blocks: a node may write as long as it
 * likes, and one organisation with many streams must not take what all have. Its creator releases it, on every path.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { UnheldAnswer } from './memory-refusal.ts';

/** A new block doubles what is charged, between these bounds, so that few are asked for. */
const blockBytesMin = 4 * 1024;
const blockBytesMax = 256 * 1024;
/** Of a character that is not Latin. */
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

  /** Throws UnheldAnswer where there is no memory for so many more. */
  add(characters: number): void {
    this.#heldBytes += characters * bytesEach;
    if (this.#heldBytes > this.#chargedBytes) this.#charge();
  }

  /** All of it is about to be written so many times more, for a client that may read slowly. */
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
