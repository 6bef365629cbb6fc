/**
 * Whose request is it? A key resolves to one organisation, or the request is refused with bytes that do not reveal why
 * (Authentication 8). The checksum is checked before any look-up (Authentication 3).
 */
import { hashKey, parseKey } from '../ids/api-key.ts';
import type { KeyOwner, Lookup } from '../snapshot/lookup.ts';
import { Refusal } from './refusal.ts';
import type { Target } from './route.ts';

/** An organisation's key, a visitor of the playground, or no one, where no key is needed. */
export type Caller =
  | { readonly kind: 'key'; readonly owner: KeyOwner }
  | { readonly kind: 'anonymous'; readonly visitor: string }
  | { readonly kind: 'nobody' };

/** A caller of inference. */
export type Client = Exclude<Caller, { readonly kind: 'nobody' }>;

/** The organisation or visitor that is limited, charged for memory, and scheduled. */
export function subjectOf(client: Client): string {
  return client.kind === 'key' ? client.owner.organisation : `visitor:${client.visitor}`;
}

export interface Credentials {
  readonly authorization: string | undefined;
  readonly xApiKey: string | undefined;
}

const unauthorizedMessage = 'The API key is missing or not valid.';

export function unauthorized(reason: string): Refusal {
  return new Refusal('Unauthorized', unauthorizedMessage, { reason });
}

function bearerKey(authorization: string | undefined): string | undefined {
  const match = authorization === undefined ? null : /^bearer +([^\s]+) *$/i.exec(authorization);
  return match?.[1];
}

function acceptKey(lookup: Lookup, key: string | undefined, nowMs: number): KeyOwner | string {
  if (key === undefined) return 'missing';
  const parsed = parseKey(key);
  if (parsed === undefined) return 'malformed';
  const owner = lookup.keyOwner(hashKey(parsed));
  if (!owner) return 'unknown';
  if (owner.revoked) return 'revoked';
  if (owner.expiresAtMs !== null && owner.expiresAtMs <= nowMs) return 'expired';
  return owner;
}

/**
 * `x-api-key` counts only where the stack named is the key's own and speaks the Anthropic-style API (Authentication 2);
 * everywhere else it is as if absent, so that it reveals nothing of a foreign stack.
 */
function acceptXApiKey(
  lookup: Lookup,
  target: Target,
  key: string | undefined,
  nowMs: number,
): KeyOwner | undefined {
  if (target.kind !== 'stack' || key === undefined) return undefined;
  const owner = acceptKey(lookup, key.trim(), nowMs);
  if (typeof owner === 'string') return undefined;
  const stack = lookup.stack(target.stack);
  return stack?.surface === 'anthropic' && stack.organisation === owner.organisation ? owner : undefined;
}

/** Identifies the caller. Throws Unauthorized, one answer for every cause. */
export function authenticate(
  lookup: Lookup,
  target: Target,
  credentials: Credentials,
  nowMs: number,
): Caller {
  const byHeader = acceptXApiKey(lookup, target, credentials.xApiKey, nowMs);
  const bearer = bearerKey(credentials.authorization);
  if (byHeader) {
    if (credentials.authorization === undefined || bearer === credentials.xApiKey?.trim())
      return { kind: 'key', owner: byHeader };
    throw unauthorized('two different keys');
  }
  const owner = acceptKey(lookup, bearer, nowMs);
  if (typeof owner === 'string') throw unauthorized(owner);
  return { kind: 'key', owner };
}

/**
 * Does the request carry anything that might be a key? Asked where the snapshot is too old to look one up; what it is does
 * not count, so that nothing is revealed of it. On the shared host `x-api-key` is as if absent.
 */
export function carriesCredential(target: Target, { authorization, xApiKey }: Credentials): boolean {
  if (authorization !== undefined && !/^(bearer)?\s*$/i.test(authorization)) return true;
  return target.kind === 'stack' && xApiKey !== undefined && xApiKey.trim() !== '';
}
