/**
 * Draws valid values from a zod schema, so that new fields are fuzzed without a change in this file. Some schemas hide a part
 * of their rules in a function, such as a limited list or a custom check. `opaque` supplies values for these fields by name.
 */
import type { z } from 'zod';
import type { Draw, Json } from './draw.ts';

/** Makes a value for a named field whose schema does not describe it. Returns undefined for other fields. */
export type Opaque = (draw: Draw, field: string) => Json | undefined;

export interface SchemaDraw {
  readonly draw: Draw;
  readonly opaque: Opaque;
  /** Probability that an optional field is present. */
  readonly optional: number;
}

/** Texts that match the patterns of various fields. */
const candidates = [
  'ok',
  'tool_1',
  'data:image/png;base64,AAAA',
  'clear_thinking_20251015',
  '2026-01-01',
  'node-1',
];

/** Draws a value that is usually, but not always, valid. */
export function valueFor(from: SchemaDraw, schema: z.core.$ZodType, field = ''): Json {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  const { draw } = from;
  switch (def.type) {
    case 'object':
      return objectOf(from, def.shape);
    case 'union':
      return valueFor(from, draw.pick(def.options), field);
    case 'optional':
    case 'nullable':
    case 'default':
    case 'catch':
    case 'readonly':
      return valueFor(from, def.innerType, field);
    case 'pipe':
      return valueFor(from, def.in._zod.def.type === 'transform' ? def.out : def.in, field);
    case 'array':
      return draw.list(draw.between(1, 3), () => valueFor(from, def.element, field));
    case 'tuple':
      return def.items.map((item) => valueFor(from, item, field));
    case 'record':
      return Object.fromEntries(
        draw.list(draw.below(3), () => [
          String(valueFor(from, def.keyType, field)),
          valueFor(from, def.valueType, field),
        ]),
      );
    case 'enum':
      return draw.pick(Object.values(def.entries)) as Json;
    case 'literal':
      return draw.pick(def.values) as Json;
    case 'boolean':
      return draw.chance(0.5);
    case 'number':
      return taken(schema, () => draw.number()) ?? 1;
    case 'string':
      return taken(schema, () => (draw.chance(0.5) ? draw.text() : draw.pick(candidates))) ?? draw.text();
    case 'never':
      return null;
    case 'custom':
      return from.opaque(draw, field) ?? (draw.chance(0.8) ? { a: draw.json() } : draw.json());
    default:
      return from.opaque(draw, field) ?? draw.json();
  }
}

function objectOf(from: SchemaDraw, shape: Readonly<Record<string, z.core.$ZodType>>): Json {
  const members: [string, Json][] = [];
  for (const [name, schema] of Object.entries(shape)) {
    const mayMiss = schema._zod.optin === 'optional' && !isRequired(schema);
    if (mayMiss && !from.draw.chance(from.optional)) continue;
    members.push([name, valueFor(from, schema, name)]);
  }
  return Object.fromEntries(members);
}

/**
 * Whether a field must be present. Some schemas treat an empty value as absent, so only parsing `undefined` can show this.
 */
function isRequired(schema: z.core.$ZodType): boolean {
  return !(schema as z.ZodType).safeParse(undefined).success;
}

/** Draws up to 12 values and returns the first valid one. */
function taken(schema: z.core.$ZodType, make: () => Json): Json | undefined {
  for (let attempt = 0; attempt < 12; attempt++) {
    const value = make();
    if ((schema as z.ZodType).safeParse(value).success) return value;
  }
  return undefined;
}
