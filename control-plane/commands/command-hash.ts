/** Hashes a command's parsed values, to tell a repeated command from a different one with the same Idempotency-Key. */
import { createHash } from 'node:crypto';

/** Returns a value's canonical JSON: members sorted, undefined ones omitted. Accepts only plain values of bounded size. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item ?? null)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value ?? null);
  const members: string[] = [];
  for (const name of Object.keys(value).sort()) {
    const member = (value as Readonly<Record<string, unknown>>)[name];
    if (member !== undefined) members.push(`${JSON.stringify(name)}:${canonical(member)}`);
  }
  return `{${members.join(',')}}`;
}

/** Returns the SHA-256 of a command's canonical text, in hex. `params` and `body` must have passed their schemas. */
export function commandHash(name: string, params: unknown, body: unknown): string {
  return createHash('sha256')
    .update(canonical([name, params, body]))
    .digest('hex');
}
