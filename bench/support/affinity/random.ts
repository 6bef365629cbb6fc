import { seededRandom } from '../../../test/support/random.ts';

/** Random numbers that a seed determines, so that every policy meets the same requests. */
export class Random {
  /** From 0 up to 1. */
  readonly next: () => number;

  constructor(seed: number) {
    this.next = seededRandom(seed);
  }

  /** An integer from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  /** Of an exponential distribution. */
  wait(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }

  /** Index below `count`, where the first are the most likely (Zipf, exponent 1). */
  zipf(count: number): number {
    return Math.min(count - 1, Math.floor(count ** this.next()) - 1);
  }

  /** Text of so many tokens, four characters each, that occurs nowhere else. */
  text(tokens: number): string {
    const words: string[] = [];
    for (let at = 0; at < tokens; at += 2) words.push(this.between(1_000_000, 9_999_999).toString());
    return words.join(' ');
  }
}
