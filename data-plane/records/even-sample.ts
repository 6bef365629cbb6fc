/**
 * Draws an even sample of requests in bounded memory. Requests are divided into kinds. Each kind contributes the same number,
 * or all that it has if it has fewer, and each request of a kind is kept with the same probability. So kinds with few
 * requests are represented too.
 */
import type { WrittenRequest } from './request-row.ts';

interface Kind {
  seen: number;
  /** Requests of this kind in the sample: all of them, or as many as one kind may have. */
  readonly kept: WrittenRequest[];
}

export interface SampledRequest {
  readonly request: WrittenRequest;
  /** Number of requests of the same kind for which this sampled request stands. */
  readonly requests: number;
}

/** Factor by which the sample may exceed its target size before the excess is removed. */
const growth = 1.25;

export class EvenSample {
  readonly #max: number;
  readonly #random: () => number;
  readonly #kinds = new Map<string, Kind>();
  #kept = 0;
  /** Maximum number of requests that the sample keeps of each kind. It only ever decreases. */
  #perKind: number;

  constructor(max: number, random = Math.random) {
    this.#max = max;
    this.#perKind = max;
    this.#random = random;
  }

  /** Adds a request of the kind `name`. Ignores new kinds if there are already as many kinds as the target size. */
  add(name: string, request: WrittenRequest): void {
    const kind = this.#kinds.get(name) ?? this.#begin(name);
    if (kind === undefined) return;
    kind.seen++;
    if (kind.kept.length < this.#perKind) {
      kind.kept.push(request);
      if (++this.#kept > this.#max * growth) this.#cut();
      return;
    }
    const at = Math.floor(this.#random() * kind.seen);
    if (at < this.#perKind) kind.kept[at] = request;
  }

  /** Returns the sample, which contains no more requests than the target size. */
  taken(): SampledRequest[] {
    this.#cut();
    return [...this.#kinds.values()].flatMap(({ seen, kept }) =>
      kept.map((request) => ({ request, requests: seen / kept.length })),
    );
  }

  #begin(name: string): Kind | undefined {
    if (this.#kinds.size >= this.#max) return undefined;
    const kind = { seen: 0, kept: [] };
    this.#kinds.set(name, kind);
    return kind;
  }

  /** Removes random requests from the largest kinds until the sample has its target size. */
  #cut(): void {
    if (this.#kept <= this.#max) return;
    const kinds = [...this.#kinds.values()];
    this.#perKind = fairLevel(
      kinds.map(({ kept }) => kept.length),
      this.#max,
    );
    this.#kept = 0;
    for (const { kept } of kinds) {
      while (kept.length > this.#perKind) {
        const last = kept.pop();
        const at = Math.floor(this.#random() * (kept.length + 1));
        if (last !== undefined && at < kept.length) kept[at] = last;
      }
      this.#kept += kept.length;
    }
  }
}

/** Largest number of requests per kind with which all kinds together have no more than `max` requests. */
function fairLevel(sizes: readonly number[], max: number): number {
  const sorted = sizes.toSorted((one, other) => one - other);
  let left = max;
  for (const [at, size] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - at));
    if (size > share) return share;
    left -= size;
  }
  return max;
}
