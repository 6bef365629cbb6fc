/**
 * Random choices of one fuzz case. They are drawn from fast-check, so that a failing case can be shrunk and a seed repeats
 * it.
 */
import fc from 'fast-check';

/** Boundary values of integer types and of doubles. */
const edgeNumbers: readonly number[] = [
  ...[0, -0, 1, -1, 2, 0.5, -0.5, 1e-9, 127, 128, 255, 256, 65_535, 65_536, 2 ** 31 - 1, 2 ** 31, 2 ** 32],
  ...[2 ** 53 - 1, 2 ** 53, 1e21, 1e308, -1e308],
];

/** Texts that parsers, templates and objects often mishandle. */
export const edgeTexts: readonly string[] = [
  ...['', ' ', '\0', '\n', '\r\n', '\t', '\u2028', '\u202e', '\ufeff', '\ud800', 'é', 'e\u0301', '株式会社'],
  ...['👩‍👩‍👧', '"', '\\', "'; DROP TABLE routes; --", '__proto__', 'constructor', 'toString', 'null'],
  ...['true', '-1', 'NaN', '../../etc/passwd', '%00', '%', '*', '[DONE]', '<tool_call>', '<|im_end|>'],
  ...['data: x\n\n', 'ᚠ'.repeat(100), 'a'.repeat(201), 'a'.repeat(5000)],
];

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

const fraction = (): fc.Arbitrary<number> =>
  fc.noBias(fc.integer({ min: 0, max: 2 ** 32 - 1 })).map((drawn) => drawn / 2 ** 32);
const word = (): fc.Arbitrary<string> =>
  fc.constantFrom('hello', 'there', 'small', 'grey', 'otter', 'of', 'the', 'river', '42', '…');
const text = (): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 8, arbitrary: fc.array(word(), { maxLength: 30 }).map((words) => words.join(' ')) },
    { weight: 2, arbitrary: fc.constantFrom(...edgeTexts) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  );
const number = (): fc.Arbitrary<number> =>
  fc.oneof(
    fc.integer({ min: -100, max: 1000 }),
    fc.constantFrom(...edgeNumbers),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
  );
const json = (): fc.Arbitrary<Json> =>
  fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      ...[fc.constant(null), fc.boolean(), number(), text()],
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.oneof(word(), fc.constantFrom(...edgeTexts)), tie('value'), { maxKeys: 3 }),
    ),
  })).value;

/** A source of choices. They shrink towards the first item of a list, `false` and the smallest number. */
export class Draw {
  readonly #draw: fc.GeneratorValue;

  constructor(source: fc.GeneratorValue) {
    this.#draw = source;
  }

  chance(probability: number): boolean {
    return this.#fraction() >= 1 - probability;
  }

  /** Draws an integer from 0 up to, but not including, `end`. */
  below(end: number): number {
    return Math.floor(this.#fraction() * end);
  }

  between(min: number, max: number): number {
    return min + this.below(max - min + 1);
  }

  /** Draws a number below `max`, usually a small one. */
  skewed(max: number): number {
    return Math.floor(max ** this.#fraction());
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }

  weighted<Value>(choices: readonly (readonly [weight: number, value: Value])[]): Value {
    let left = this.#fraction() * choices.reduce((sum, [weight]) => sum + weight, 0);
    const chosen = choices.find(([weight]) => {
      left -= weight;
      return left < 0;
    });
    return (chosen ?? (choices[0] as readonly [number, Value]))[1];
  }

  list<Value>(length: number, make: (index: number) => Value): Value[] {
    return Array.from({ length }, (_, index) => make(index));
  }

  bytes(length: number): Buffer {
    return Buffer.from(this.list(length, () => this.below(256)));
  }

  word(): string {
    return this.#draw(word);
  }

  text(): string {
    return this.#draw(text);
  }

  number(): number {
    return this.#draw(number);
  }

  json(): Json {
    return this.#draw(json);
  }

  /** Splits the bytes into at most `count` non-empty pieces. */
  pieces(whole: Buffer, count: number): Buffer[] {
    const cuts = new Set(this.list(count - 1, () => this.below(whole.length + 1)));
    const edges = [0, ...[...cuts].sort((a, b) => a - b), whole.length];
    return edges
      .slice(1)
      .map((edge, index) => whole.subarray(edges[index], edge))
      .filter((piece) => piece.length > 0);
  }

  /** Returns a source for the same case that draws only usual choices: the first item of a list, and the likelier outcome. */
  calm(): Draw {
    return new CalmDraw(this.#draw);
  }

  #fraction(): number {
    return this.#draw(fraction);
  }
}

class CalmDraw extends Draw {
  override chance(probability: number): boolean {
    return probability >= 0.5;
  }

  override weighted<Value>(choices: readonly (readonly [weight: number, value: Value])[]): Value {
    return (choices[0] as readonly [number, Value])[1];
  }
}
