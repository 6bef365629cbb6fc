/** Types and checks for untrusted JSON. Every field is `unknown`, so whoever reads it must check its type. */

/** JSON object from an untrusted source. Fields are declared by name if more than one file reads them. */
export interface Loose {
  readonly [field: string]: unknown;
  readonly model?: unknown;
  readonly text?: unknown;
  readonly content?: unknown;
  readonly role?: unknown;
  readonly name?: unknown;
  readonly function?: unknown;
}

export function isRecord(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function integer(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) ? value : undefined;
}
