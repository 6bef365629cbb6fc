/** Simulated time: runs events in order and draws random choices from a seed. Equal seeds give equal runs on all machines. */
import { type Random, seededRandom } from '../support/random.ts';

interface Item {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

function before(a: Item | undefined, b: Item | undefined): boolean {
  if (a === undefined || b === undefined) return b === undefined;
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

export class Agenda {
  readonly #heap: Item[] = [];
  #order = 0;

  add(atMs: number, run: () => void): void {
    const heap = this.#heap;
    const item = { atMs, order: this.#order++, run };
    let index = heap.push(item) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (before(heap[parent], item)) break;
      heap[index] = heap[parent] as Item;
      index = parent;
    }
    heap[index] = item;
  }

  take(): Item | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
      if (before(last, heap[child])) break;
      heap[index] = heap[child] as Item;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

export class Dice {
  /** Returns a random number from 0 up to, but not including, 1. */
  readonly next: Random;

  constructor(seed: number) {
    this.next = seededRandom(seed * 2654435761);
  }

  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  between(from: number, to: number): number {
    return from + this.next() * (to - from);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }
}
