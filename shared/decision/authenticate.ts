/**
 * Whose request is it? A key resolves to one organisation, or the request is refused with bytes that do not reveal why
 * (Authentication 8). The checksum is checked before any look-up (Authentication 3).
 */
import type { keyFaults } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { hashKey, parseKey } from '../ids/api-key.ts';
import type { KeyOwner, Lookup, TierLimits } from '../snapshot/lookup.ts';
import type { CauseOf } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Target } from './route.ts';
import type { StepFacts } from './step.ts';
import type { Trace } from './trace.ts';

/** The plan by which an organisation asks: none where it is suspended. */
export function planOf({ suspended, tier }: KeyOwner): TierLimits | null {
  return suspended ? null : tier;
}

/** An organisation's key, a visitor of the playground, or no one, where no key is needed. */
export type Caller =
  | { readonly kind: 'key'; readonly owner: KeyOwner }
  | {
      readonly kind: 'anonymous';
      readonly visitor: string;
      /** Keyed hash of the visitor's network and the day; undefined where it is not counted. */
      readonly network?: string | undefined;
      /** The moment of whose month and day both are, ms since 1970; the decision's own where it is undefined. */
      readonly admittedMs?: number | undefined;
    }
  | { readonly kind: 'nobody' };

/** A caller of inference. */
export type Client = Exclude<Caller, { readonly kind: 'nobody' }>;

/** Begins the subject of a visitor; no id of an organisation contains a colon. */
export const visitorPrefix = 'visitor:';

/** The organisation or visitor that is limited. */
export function subjectOf(client: Client): string {
  return client.kind === 'key' ? client.owner.organisation : `${visitorPrefix}${client.visitor}`;
}

/**
 * Who has a share of memory, of the workers' turns and of the evidence about nodes, by subject: an organisation, or all visitors
 * together, because anybody can be many visitors.
 */
export function sharerOf(subject: string): string {
  return subject.startsWith(visitorPrefix) ? visitorsSubject : subject;
}

export interface Credentials {
  readonly authorization: string | undefined;
  readonly xApiKey: string | undefined;
  /** In place of both, where a decision is made again: headers are never recorded. */
  readonly recorded?: RecordedCredential | undefined;
}

type RecordedKey =
  | { readonly keyId: string; readonly header: 'authorization' | 'x-api-key' }
  /** Any good key of it. */
  | { readonly organisation: string };

/** What the headers of a request were found to carry. */
export type RecordedCredential =
  | RecordedKey
  | { readonly fault: (typeof keyFaults)[number]; readonly carried: boolean };

/** A key as it was sent, or as it was recorded. */
type PresentedKey = string | RecordedKey | undefined;

/** Separates the values of a header that was sent several times. No value can contain it. */
export const fieldSeparator = '\n';

/** Why a key is not accepted; `owner` where it is somebody's. */
interface KeyFault {
  readonly fault: CauseOf<'Unauthorized'>;
  readonly owner?: KeyOwner;
}

const unauthorizedMessage = 'The API key is missing or not valid.';

export function unauthorized(cause: CauseOf<'Unauthorized'>, keyId?: string): Refusal {
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
 * `x-api-key` counts only where the stack named is the key's own and speaks the Anthropic-style API (Authentication 2);
 * everywhere else it is as if absent, so that it reveals nothing of a foreign stack.
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

/** On a switched stack of the key's organisation, where `x-api-key` counts, no other key may be in it. */
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

/** The keys that the headers carry, as they were sent or recorded. */
function presented(
  { authorization, xApiKey }: Credentials,
  recorded: RecordedKey | undefined,
): readonly [PresentedKey, PresentedKey] {
  if (recorded === undefined) return [bearerKey(authorization), nonEmpty(xApiKey)];
  return 'keyId' in recorded && recorded.header === 'x-api-key'
    ? [undefined, recorded]
    : [recorded, undefined];
}

/** Is the key of an `Authorization` header good, whatever it may be used for? */
export function carriesKey(lookup: Lookup, authorization: string, nowMs: number): boolean {
  return !('fault' in acceptKey(lookup, bearerKey(authorization), nowMs));
}

/** The recorded fault. If `Authorization` is not empty but has no key, the header is at fault: sent twice, or malformed. */
function faultIn({ fault }: KeyFault, authorization: string | undefined): KeyFault['fault'] {
  if (fault !== 'missing' || authorization === undefined || isEmptyBearer(authorization)) return fault;
  return authorization.includes(fieldSeparator) ? 'two Authorization headers' : 'malformed';
}

function isEmptyBearer(authorization: string): boolean {
  return /^(bearer)?\s*$/i.test(authorization);
}

/** Identifies the caller. Throws Unauthorized, one answer for every cause; with a trace, only where no caller is known. */
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
  const [bearer, xApiKey] = presented(credentials, recorded);
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
  const refusal = unauthorized(faultIn(found, authorization), known?.keyId);
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
 * Does the request carry anything that might be a key? Asked where the snapshot is too old to look one up; what it is does
 * not count, so that nothing is revealed of it. On the shared host `x-api-key` is as if absent.
 */
export function carriesCredential(
  target: Target,
  { authorization, xApiKey, recorded }: Credentials,
): boolean {
  if (recorded !== undefined) return !('fault' in recorded) || recorded.carried;
  if (authorization !== undefined && !isEmptyBearer(authorization)) return true;
  return target.kind === 'stack' && xApiKey !== undefined && xApiKey.trim() !== '';
}
