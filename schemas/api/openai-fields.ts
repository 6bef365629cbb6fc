/**
 * Wrappers that put each request field into one of four classes: carried, required, accepted without effect, or refused
 * (specification, Endpoints). A known field counts as absent if it is null, [] or {}, because clients send back what they
 * received. Wrappers return undefined for these values. An unknown field has no wrapper, so the strict object refuses it.
 */
import { z } from 'zod';

/** Converts `null`, `[]` and `{}` to undefined. */
function absentToUndefined(value: unknown): unknown {
  if (typeof value !== 'object') return value;
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.length === 0 ? undefined : value;
  for (const _ in value) return value;
  return undefined;
}

/** Returns the schema of an optional field that is passed to the node. */
export function carried<T extends z.ZodType>(schema: T) {
  return z.preprocess(absentToUndefined, schema.optional()).optional();
}

/** Returns the schema of a field that must be present and must not be an empty list. */
export function required<T extends z.ZodType>(schema: T) {
  return z.preprocess((value, context) => {
    if (Array.isArray(value) && value.length === 0) {
      context.issues.push({ code: 'custom', message: 'must not be empty', input: value });
      return z.NEVER;
    }
    return absentToUndefined(value);
  }, schema);
}

/** Returns the schema of a field that is validated and then dropped. docs/api.md lists the accepted values. */
export function noOp<T extends z.ZodType>(schema: T) {
  return carried(schema.transform((): undefined => undefined));
}

/** Returns the schema of a field that the API defines but no node can support. The field is refused unless it is empty. */
export function refused() {
  return carried(z.never({ error: 'is not supported' }));
}

/** JSON that the caller defines, such as a JSON Schema. The gateway passes it on unchanged. */
export const freeObject = z.custom<Readonly<Record<string, unknown>>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be an object',
);

/** Whether the text from index `from` on is base64. Searches for an invalid character, which needs no extra memory. */
export function isBase64(text: string, from = 0): boolean {
  const padding = text.indexOf('=', from);
  const data = text.slice(from, padding === -1 ? undefined : padding);
  return (
    data !== '' && !/[^A-Za-z0-9+/]/.test(data) && (padding === -1 || /^={1,2}$/.test(text.slice(padding)))
  );
}

/** Number of list entries that are validated before checking whether one of them was invalid. */
const stride = 64;

/** Returns a list schema that stops soon after its first fault. Zod's own array schema may collect millions of faults. */
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
        context.issues.push(shiftIssue(parsed.error.issues[0], from));
        return z.NEVER;
      }
      for (const entry of parsed.data) entries.push(entry);
    }
    return entries;
  });
}

/** Returns the issue with `from` added to the entry's index, so that its path is correct for the whole list. */
function shiftIssue(issue: z.core.$ZodIssue | undefined, from: number): z.core.$ZodRawIssue {
  const [index, ...rest] = issue?.path ?? [];
  return { ...issue, path: [Number(index ?? 0) + from, ...rest] } as z.core.$ZodRawIssue;
}
