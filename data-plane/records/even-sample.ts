/**
 * A sample of requests of which each kind has as many as the others, or all that it had, in bounded memory: of what was added of
 * a kind, all are kept with the same probability. A kind is what a sample must not lose however few requests it had.
 */
import type { WrittenRequest } from './request-row.ts';

interface Kind {
  seen: number;
  /** All that were seen, or as many as any kind may have. */
  readonly kept: WrittenRequest[];
}

export interface SampledRequest {
  readonly request: WrittenRequest;
  /** So many requests of its kind it stands for. */
  readonly requests: number;
}

/** What is kept grows to so many times what is asked for, before it is cut to that again. */
const growth = 1.25;

export class EvenSample {
  readonly #max: number;
  readonly #random: () => number;
  readonly #kinds = new Map<string, Kind>();
  #kept = 0;
  /** So many of one kind; it only gets less. */
  #perKind: number;

  constructor(max: number, random = Math.random) {
    this.#max = max;
    this.#perKind = max;
    this.#random = random;
  }

  /** Of more kinds than there may be requests, those are left out that come last. */
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

  /** At most as many as were asked for. */
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

  /** Takes from the largest kinds until there are as many as were asked for. */
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

/** The largest number of each with which all together are at most `max`. */
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
