/**
 * JSON from outside whose fields nobody has checked, and the test that tells an object from other values.
 * A field is read only through `unknown`, so every reader must look at its type.
 */

/** A JSON object; the fields named here are those that several readers share. */
export interface Loose {
  readonly [field: string]: unknown;
  readonly model?: unknown;
  readonly text?: unknown;
  readonly content?: unknown;
  readonly role?: unknown;
  readonly name?: unknown;
  readonly function?: unknown;
}

/** Tells an object from the other JSON values. */
export function isRecord(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value if it is a whole number. */
export function integer(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) ? value : undefined;
}
