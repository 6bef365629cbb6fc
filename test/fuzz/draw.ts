/**
 * Choices of a fuzz case. All of a case follows from the seed of the run and the number of the case, so that one case
 * can be repeated alone.
 */
import { type Random, seededRandom } from '../support/random.ts';

/** Numbers at which code changes its mind. */
const edgeNumbers: readonly number[] = [
  ...[0, -0, 1, -1, 2, 0.5, -0.5, 1e-9, 127, 128, 255, 256, 65_535, 65_536, 2 ** 31 - 1, 2 ** 31, 2 ** 32],
  ...[2 ** 53 - 1, 2 ** 53, 1e21, 1e308, -1e308],
];

/** Texts at which code changes its mind. */
export const edgeTexts: readonly string[] = [
  ...['', ' ', '\0', '\n', '\r\n', '\t', '\u2028', '\u202e', '\ufeff', '\ud800', 'é', 'e\u0301', '株式会社'],
  ...['👩‍👩‍👧', '"', '\\', "'; DROP TABLE routes; --", '__proto__', 'constructor', 'toString', 'null'],
  ...['true', '-1', 'NaN', '../../etc/passwd', '%00', '%', '*', '[DONE]', '<tool_call>', '<|im_end|>'],
  ...['data: x\n\n', 'ᚠ'.repeat(100), 'a'.repeat(201), 'a'.repeat(5000)],
];

export class Draw {
  readonly #random: Random;

  constructor(seed: number, number: number) {
    this.#random = seededRandom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
    // Near seeds begin alike.
    this.#random();
  }

  /** Holds with this probability. */
  chance(probability: number): boolean {
    return this.#random() < probability;
  }

  /** A whole number from 0 up to, not including, `end`. */
  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  between(min: number, max: number): number {
    return min + this.below(max - min + 1);
  }

  /** Mostly small, seldom near `max`. */
  skewed(max: number): number {
    return Math.floor(max ** this.#random());
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }

  /** One of the choices, by its weight. */
  weighted<Value>(choices: readonly (readonly [weight: number, value: Value])[]): Value {
    let left = this.#random() * choices.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, value] of choices) {
      left -= weight;
      if (left < 0) return value;
    }
    return (choices[choices.length - 1] as readonly [number, Value])[1];
  }

  some<Value>(values: readonly Value[], probability: number): Value[] {
    return values.filter(() => this.chance(probability));
  }

  list<Value>(length: number, make: (index: number) => Value): Value[] {
    return Array.from({ length }, (_, index) => make(index));
  }

  bytes(length: number): Buffer {
    return Buffer.from(this.list(length, () => this.below(256)));
  }

  word(): string {
    return this.pick(['hello', 'there', 'small', 'grey', 'otter', 'of', 'the', 'river', '42', '…', 'ok']);
  }

  text(): string {
    if (this.chance(0.2)) return this.pick(edgeTexts);
    return this.list(this.skewed(30), () => this.word()).join(' ');
  }

  number(): number {
    if (this.chance(0.5)) return this.pick(edgeNumbers);
    return this.chance(0.5) ? this.between(-100, 1000) : this.#random();
  }

  /** The pieces of a whole, in order; each has at least one byte. */
  pieces(whole: Buffer, count: number): Buffer[] {
    const cuts = new Set(this.list(count - 1, () => this.below(whole.length + 1)));
    const edges = [0, ...[...cuts].sort((a, b) => a - b), whole.length];
    return edges
      .slice(1)
      .map((edge, index) => whole.subarray(edges[index], edge))
      .filter((piece) => piece.length > 0);
  }
}

/** Draws what is usual: the first of weighted choices, and no odds below a half. For the layers that a case leaves right. */
export class CalmDraw extends Draw {
  constructor(source: Draw) {
    super(source.below(2 ** 31), 0);
  }

  override chance(probability: number): boolean {
    return probability >= 0.5;
  }

  override weighted<Value>(choices: readonly (readonly [weight: number, value: Value])[]): Value {
    return (choices[0] as readonly [number, Value])[1];
  }
}
