/**
 * The four classes of a field of a request, as wrappers of a zod schema.
 * "Fields the chosen API shape cannot hold cause UnsupportedShapeError; they are not silently dropped" (Endpoints).
 * For every known field null, [] and {} count as absent, because clients echo what they were answered; every
 * wrapper therefore yields undefined for them. An unknown field has no wrapper, so a strict object refuses it.
 */
import { z } from 'zod';

/** What `null`, `[]` and `{}` mean on a known field. */
function absentToUndefined(value: unknown): unknown {
  if (typeof value !== 'object') return value;
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.length === 0 ? undefined : value;
  for (const _ in value) return value;
  return undefined;
}

/** A field that reaches the node. */
export function carried<T extends z.ZodType>(schema: T) {
  return z.preprocess(absentToUndefined, schema.optional()).optional();
}

/** A field that must be present and must not be an empty list. */
export function required<T extends z.ZodType>(schema: T) {
  return z.preprocess((value, context) => {
    if (Array.isArray(value) && value.length === 0) {
      context.issues.push({ code: 'custom', message: 'must not be empty', input: value });
      return z.NEVER;
    }
    return absentToUndefined(value);
  }, schema);
}

/** A field accepted without effect: checked, then left out. docs/api.md says of each what it may be. */
export function noOp<T extends z.ZodType>(schema: T) {
  return carried(schema.transform((): undefined => undefined));
}

/** A field of the shape that no node here can honour: refused unless it is empty. */
export function refused() {
  return carried(z.never({ error: 'is not supported' }));
}

/** JSON of the caller's own making (a JSON Schema): passed on as it is. */
export const freeObject = z.custom<Readonly<Record<string, unknown>>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be an object',
);

/** Whether the text from `from` on is base64. Searches for a wrong character, which needs no memory even for long texts. */
export function isBase64(text: string, from = 0): boolean {
  const padding = text.indexOf('=', from);
  const data = text.slice(from, padding === -1 ? undefined : padding);
  return (
    data !== '' && !/[^A-Za-z0-9+/]/.test(data) && (padding === -1 || /^={1,2}$/.test(text.slice(padding)))
  );
}

/** Entries that a list examines before it looks whether there was a fault. */
const stride = 64;

/**
 * A list that stops soon after its first fault: a schema's own array gathers one for every entry, and a body of a
 * few megabytes has millions of them.
 */
export function list<T extends z.ZodType>(item: T, entriesMax: number) {
  const few = z.array(item);
  return z.unknown().transform((value, context): z.output<T>[] => {
    if (!Array.isArray(value)) {
      context.issues.push({ code: 'invalid_type', expected: 'array', input: value });
      return z.NEVER;
    }
    if (value.length > entriesMax) {
      context.issues.push({ code: 'too_big', origin: 'array', maximum: entriesMax, input: value });
      return z.NEVER;
    }
    const entries: z.output<T>[] = [];
    for (let from = 0; from < value.length; from += stride) {
      const parsed = few.safeParse(value.slice(from, from + stride), { reportInput: true });
      if (!parsed.success) {
        context.issues.push(shifted(parsed.error.issues[0], from));
        return z.NEVER;
      }
      for (const entry of parsed.data) entries.push(entry);
    }
    return entries;
  });
}

/** The issue of an entry, as seen from the whole list. */
function shifted(issue: z.core.$ZodIssue | undefined, from: number): z.core.$ZodRawIssue {
  const [index, ...rest] = issue?.path ?? [];
  return { ...issue, path: [Number(index ?? 0) + from, ...rest] } as z.core.$ZodRawIssue;
}
