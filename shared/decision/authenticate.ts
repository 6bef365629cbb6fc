/**
 * Identifies the caller of a request. A valid key resolves to one organisation. Any other key is refused with a response that
 * does not reveal the reason (Authentication 8). The key's checksum is verified before any look-up (Authentication 3).
 */
import type { keyFaults } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { hashKey, parseKey } from '../ids/api-key.ts';
import type { KeyOwner, Lookup, TierLimits } from '../snapshot/lookup.ts';
import type { CauseWithType } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Target } from './route.ts';
import type { StepFacts } from './step.ts';
import type { Trace } from './trace.ts';

/** Returns the organisation's plan, or null if the organisation has no plan or is suspended. */
export function organisationPlan({ suspended, tier }: KeyOwner): TierLimits | null {
  return suspended ? null : tier;
}

/** Caller of a request: the owner of an API key, an anonymous playground visitor, or nobody if the operation needs no key. */
export type Caller =
  | { readonly kind: 'key'; readonly owner: KeyOwner }
  | {
      readonly kind: 'anonymous';
      readonly visitor: string;
      /** Keyed hash of the visitor's network and the day, or undefined if turns are not counted by network. */
      readonly network?: string | undefined;
      /** Time that selects the month and day of the visitor's hashes, in ms since 1970. Default: the time of the decision. */
      readonly admittedMs?: number | undefined;
    }
  | { readonly kind: 'nobody' };

/** Caller that may send inference requests. */
export type Client = Exclude<Caller, { readonly kind: 'nobody' }>;

/** Prefix of visitors' names in limits. Such a name cannot equal an organisation id, because ids never contain a colon. */
export const visitorPrefix = 'visitor:';

/** Organisation or visitor whose limits apply to the client's requests. */
export function limitSubject(client: Client): string {
  return client.kind === 'key' ? client.owner.organisation : `${visitorPrefix}${client.visitor}`;
}

/**
 * Returns the name under which a subject shares memory, worker turns and evidence about nodes with other subjects. All
 * visitors share one name, because one person can appear as many visitors.
 */
export function memorySharer(subject: string): string {
  return subject.startsWith(visitorPrefix) ? visitorsSubject : subject;
}

export interface Credentials {
  readonly authorization: string | undefined;
  readonly xApiKey: string | undefined;
  /** Recorded credential. It replaces both headers when a decision is replayed, because headers are never recorded. */
  readonly recorded?: RecordedCredential | undefined;
}

type RecordedKey =
  | { readonly keyId: string; readonly header: 'authorization' | 'x-api-key' }
  /** An organisation alone stands for any valid key of that organisation. */
  | { readonly organisation: string };

/** Credential of a past request: the id of its key, or the reason why no key was accepted. */
export type RecordedCredential =
  | RecordedKey
  | { readonly fault: (typeof keyFaults)[number]; readonly carried: boolean };

/** Key as it was sent in a header, or as it was recorded. */
type PresentedKey = string | RecordedKey | undefined;

/** Separator between the values of a repeated header. Header values cannot contain it. */
export const fieldSeparator = '\n';

/** Reason why a key is not accepted. `owner` is set if the key exists. */
interface KeyFault {
  readonly fault: CauseWithType<'Unauthorized'>;
  readonly owner?: KeyOwner;
}

const unauthorizedMessage = 'The API key is missing or not valid.';

export function unauthorized(cause: CauseWithType<'Unauthorized'>, keyId?: string): Refusal {
  return new Refusal(cause, unauthorizedMessage, { keyId });
}

function bearerKey(authorization: string | undefined): string | undefined {
  const match = authorization === undefined ? null : /^bearer +([^\s]+) *$/i.exec(authorization);
  return match?.[1];
}

function findOwner(lookup: Lookup, key: string | RecordedKey): KeyOwner | undefined | 'malformed' {
  if (typeof key === 'string') {
    const parsed = parseKey(key);
    if (parsed === undefined) return 'malformed';
    return lookup.keyOwner(hashKey(parsed));
  }
  if ('keyId' in key) return lookup.keyOwnerById(key.keyId);
  return lookup.organisationOwner(key.organisation);
}

function acceptKey(lookup: Lookup, key: PresentedKey, nowMs: number): KeyOwner | KeyFault {
  if (key === undefined) return { fault: 'missing' };
  const owner = findOwner(lookup, key);
  if (owner === 'malformed') return { fault: 'malformed' };
  if (!owner) return { fault: 'unknown' };
  if (owner.revoked) return { fault: 'revoked', owner };
  if (owner.expiresAtMs !== null && owner.expiresAtMs <= nowMs) return { fault: 'expired', owner };
  return owner;
}

/**
 * Checks the key in `x-api-key`. It counts only if the stack belongs to the key's organisation and uses the Anthropic-style
 * API (Authentication 2). Otherwise the header counts as absent, which reveals nothing about others' stacks.
 */
function acceptXApiKey(
  lookup: Lookup,
  target: Target,
  key: PresentedKey,
  nowMs: number,
): KeyOwner | KeyFault | undefined {
  if (target.kind !== 'stack' || key === undefined) return undefined;
  const found = acceptKey(lookup, typeof key === 'string' ? key.trim() : key, nowMs);
  const owner = 'fault' in found ? found.owner : found;
  const stack = owner && lookup.stack(target.stack);
  return stack?.surface === 'anthropic' && stack.organisation === owner?.organisation ? found : undefined;
}

/** Whether `x-api-key` contains a different key than `Authorization`, on a stack where both headers count. */
function isSecondKey(
  lookup: Lookup,
  target: Target,
  { organisation }: KeyOwner,
  bearer: PresentedKey,
  xApiKey: PresentedKey,
): boolean {
  if (target.kind !== 'stack' || typeof xApiKey !== 'string' || xApiKey.trim() === bearer) return false;
  const stack = lookup.stack(target.stack);
  return stack?.organisation === organisation && stack.surface === 'anthropic';
}

function nonEmpty(header: string | undefined): string | undefined {
  return header?.trim() === '' ? undefined : header;
}

/** Returns the keys in the `Authorization` and `x-api-key` headers, as sent or as recorded. */
function presentedKeys(
  { authorization, xApiKey }: Credentials,
  recorded: RecordedKey | undefined,
): readonly [PresentedKey, PresentedKey] {
  if (recorded === undefined) return [bearerKey(authorization), nonEmpty(xApiKey)];
  return 'keyId' in recorded && recorded.header === 'x-api-key'
    ? [undefined, recorded]
    : [recorded, undefined];
}

/** Whether an `Authorization` header contains a valid key of any organisation. */
export function carriesKey(lookup: Lookup, authorization: string, nowMs: number): boolean {
  return !('fault' in acceptKey(lookup, bearerKey(authorization), nowMs));
}

/** Returns the cause to record. If `Authorization` contains something but no key, the header was repeated or malformed. */
function recordedFault({ fault }: KeyFault, authorization: string | undefined): KeyFault['fault'] {
  if (fault !== 'missing' || authorization === undefined || isEmptyBearer(authorization)) return fault;
  return authorization.includes(fieldSeparator) ? 'two Authorization headers' : 'malformed';
}

function isEmptyBearer(authorization: string): boolean {
  return /^(bearer)?\s*$/i.test(authorization);
}

/** Identifies the caller or throws Unauthorized. With a trace, a revoked or expired key is recorded and does not throw. */
export function authenticate(
  lookup: Lookup,
  target: Target,
  credentials: Credentials,
  nowMs: number,
  trace?: Trace,
): Caller {
  const { recorded } = credentials;
  if (recorded !== undefined && 'fault' in recorded) throw unauthorized(recorded.fault);
  const authorization = nonEmpty(credentials.authorization);
  const [bearer, xApiKey] = presentedKeys(credentials, recorded);
  const byHeader = acceptXApiKey(lookup, target, xApiKey, nowMs);
  if (byHeader && !('fault' in byHeader)) {
    if (recorded !== undefined || authorization === undefined || bearer === credentials.xApiKey?.trim())
      return accepted(byHeader, 'x-api-key', trace);
    throw unauthorized('two different keys', byHeader.keyId);
  }
  const found = acceptKey(lookup, bearer, nowMs);
  if (!('fault' in found) && isSecondKey(lookup, target, found, bearer, xApiKey))
    throw unauthorized('two different keys', found.keyId);
  if (!('fault' in found)) return accepted(found, 'authorization', trace);
  const known = found.owner ?? byHeader?.owner;
  const refusal = unauthorized(recordedFault(found, authorization), known?.keyId);
  if (trace === undefined || known === undefined) throw refusal;
  trace.refuse(refusal, keyFacts(known, found.owner ? found.fault : (byHeader?.fault ?? '')), [
    { table: 'api_key', id: known.keyId },
  ]);
  return { kind: 'key', owner: known };
}

function accepted(owner: KeyOwner, header: string, trace: Trace | undefined): Caller {
  if (owner.keyId === '') trace?.add('key', 'assumed', { organisation: owner.organisation });
  else
    trace?.add('key', 'ok', { ...keyFacts(owner, 'accepted'), header }, [
      { table: 'api_key', id: owner.keyId },
    ]);
  return { kind: 'key', owner };
}

function keyFacts({ keyId, organisation, expiresAtMs }: KeyOwner, state: string): StepFacts {
  return { keyId, organisation, expiresAtMs, state };
}

/**
 * Whether the request contains anything that might be a key. Used if the snapshot is too old to look up keys, so the response
 * must not depend on the key's value. On the shared host, `x-api-key` counts as absent.
 */
export function carriesCredential(
  target: Target,
  { authorization, xApiKey, recorded }: Credentials,
): boolean {
  if (recorded !== undefined) return !('fault' in recorded) || recorded.carried;
  if (authorization !== undefined && !isEmptyBearer(authorization)) return true;
  return target.kind === 'stack' && xApiKey !== undefined && xApiKey.trim() !== '';
}
