/**
 * Parses an object by the fields it has. A schema of forty optional fields asks forty times whether a field is there; a
 * request has five. In a strict object no field's verdict depends on another's, so the schema of exactly the fields
 * present accepts the same objects and yields the same values; whatever it does not accept is parsed by the whole schema,
 * which stays the only source of refusals.
 */
import type { z } from 'zod';

/** Sets of fields remembered for each schema; clients send few. Further ones are parsed by the whole schema. */
const setsMax = 256;

export class PresentFields<Shape extends z.core.$ZodShape> {
  readonly #whole: z.ZodObject<Shape, z.core.$strict>;
  /** Fields that a schema of some fields must ask for too, because they may not be absent. */
  readonly #required: readonly string[];
  readonly #bySet = new Map<string, z.ZodObject>();

  constructor(whole: z.ZodObject<Shape, z.core.$strict>) {
    this.#whole = whole;
    this.#required = Object.keys(whole.shape).filter(
      (name) => !(whole.shape[name] as z.ZodType).safeParse(undefined).success,
    );
  }

  /** As `safeParse` of the whole schema. */
  safeParse(
    value: Readonly<Record<string, unknown>>,
  ): z.ZodSafeParseResult<z.output<z.ZodObject<Shape, z.core.$strict>>> {
    const parsed = this.#schemaOf(Object.keys(value))?.safeParse(value);
    if (parsed?.success) return parsed as z.ZodSafeParseSuccess<z.output<z.ZodObject<Shape, z.core.$strict>>>;
    return this.#whole.safeParse(value, { reportInput: true });
  }

  #schemaOf(names: readonly string[]): z.ZodObject | undefined {
    const set = names.join();
    const known = this.#bySet.get(set);
    if (known !== undefined || this.#bySet.size >= setsMax) return known;
    if (!this.#isFit(names)) return undefined;
    const inOrder = Object.keys(this.#whole.shape).filter((name) => names.includes(name));
    const mask = Object.fromEntries(inOrder.map((name) => [name, true]));
    const some = this.#whole.pick(mask as never) as unknown as z.ZodObject;
    this.#bySet.set(set, some);
    return some;
  }

  #isFit(names: readonly string[]): boolean {
    return (
      names.every((name) => Object.hasOwn(this.#whole.shape, name)) &&
      this.#required.every((name) => names.includes(name))
    );
  }
}
