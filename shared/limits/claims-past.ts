/** The records of gauges that a reader of the log keeps as bytes, in their order. Pure: times are passed in. */
import type { PackedEntries } from '../../schemas/gauges.ts';

export interface PastEntries {
  readonly process: string;
  readonly entries: PackedEntries;
  /** Another process held all room. */
  readonly isBlocked: boolean;
  /** When it was read, monotonic ms. */
  readonly atMs: number;
}

/** A process ended. */
export interface PastEnd {
  readonly ended: string;
  readonly atMs: number;
}

/** Longer than a minute, the differences of clocks, and the time after which what is held is repeated. */
const keptMs = 80_000;
/** What is older goes in lots. */
const lotMs = 10_000;
/** Of a record beyond its entries, about. */
const recordBytes = 250;

export class ClaimsPast {
  readonly #bytesMax: number;
  #past: (PastEntries | PastEnd)[] = [];
  #bytes = 0;

  constructor(bytesMax = 64 * 1024 * 1024) {
    this.#bytesMax = bytesMax;
  }

  /** False where there is too much to keep. */
  keep(past: PastEntries | PastEnd): boolean {
    this.#past.push(past);
    this.#bytes += bytesOf(past);
    const oldestMs = this.#past[0]?.atMs ?? past.atMs;
    if (past.atMs - oldestMs > keptMs + lotMs) this.#forget(past.atMs - keptMs);
    return this.#bytes <= this.#bytesMax;
  }

  [Symbol.iterator](): IterableIterator<PastEntries | PastEnd> {
    return this.#past[Symbol.iterator]();
  }

  #forget(beforeMs: number): void {
    this.#past = this.#past.filter(({ atMs }) => atMs >= beforeMs);
    this.#bytes = this.#past.reduce((sum, each) => sum + bytesOf(each), 0);
  }
}

function bytesOf(past: PastEntries | PastEnd): number {
  return recordBytes + ('ended' in past ? 0 : past.entries.byteLength);
}
