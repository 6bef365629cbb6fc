/** Hash that tells a repeated command from another one with the same Idempotency-Key. It covers the parsed values. */
import { createHash } from 'node:crypto';

/** JSON with members sorted by name, and without undefined ones. Only for plain values of bounded size. */
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

/** SHA-256 of a command's canonical text, in hex. `params` and `body` must have passed their schemas. */
export function commandHash(name: string, params: unknown, body: unknown): string {
  return createHash('sha256')
    .update(canonical([name, params, body]))
    .digest('hex');
}
