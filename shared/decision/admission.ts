/**
 * Admission: the decisions made from the head of a request, before its body is read: host → operation → key → listing.
 * Pure: look-up, time and the state of the gateway are parameters; live serving and replay both call it. Host and operation
 * are resolved without a look-up: a label of stack form names a stack whether or not one exists, and a path reveals nothing.
 */
import { stackIdSchema } from '../../schemas/names.ts';
import type { Lookup } from '../snapshot/lookup.ts';
import {
  authenticate,
  type Caller,
  type Client,
  type Credentials,
  carriesCredential,
  unauthorized,
} from './authenticate.ts';
import { type ListingOperation, listModels } from './model-listing.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';
import type { Target } from './route.ts';

export interface HostNames {
  /** Names of the shared host, lower case, without port. */
  readonly shared: ReadonlySet<string>;
  /** Stack hosts are `<stack id>.<stackDomain>`; lower case. */
  readonly stackDomain: string;
}

const sharedTarget: Target = { kind: 'shared' };

/** Resolves a `Host` header, its port ignored. Throws NotFoundError for any other host. */
export function resolveHost(header: string | undefined, names: HostNames): Target {
  const host = withoutPort(header ?? '').toLowerCase();
  if (names.shared.has(host)) return sharedTarget;
  const suffix = `.${names.stackDomain}`;
  if (host.endsWith(suffix)) {
    const label = host.slice(0, -suffix.length);
    if (stackIdSchema.safeParse(label).success) return { kind: 'stack', stack: label };
  }
  throw new Refusal('NotFoundError', 'No such host is served here.', { reason: 'unknown host' });
}

function withoutPort(host: string): string {
  if (host.startsWith('[')) return host.slice(1, host.indexOf(']') === -1 ? undefined : host.indexOf(']'));
  const colon = host.indexOf(':');
  const name = colon === -1 ? host : host.slice(0, colon);
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

export type Operation =
  | { readonly kind: 'chat' | 'embeddings' | 'messages' | 'count-tokens' | 'unknown' }
  | ListingOperation;

const posts = {
  '/v1/chat/completions': { kind: 'chat' },
  '/v1/embeddings': { kind: 'embeddings' },
  '/v1/messages': { kind: 'messages' },
  '/v1/messages/count_tokens': { kind: 'count-tokens' },
} as const satisfies Record<string, Operation>;

const unknownOperation: Operation = { kind: 'unknown' };

/** `path` is without its query. */
export function resolveOperation(method: string, path: string): Operation {
  if (method === 'POST')
    return Object.hasOwn(posts, path) ? posts[path as keyof typeof posts] : unknownOperation;
  if (method !== 'GET') return unknownOperation;
  if (path === '/v1/models') return { kind: 'models' };
  if (!path.startsWith('/v1/models/') || path.length === '/v1/models/'.length) return unknownOperation;
  try {
    return { kind: 'model', model: decodeURIComponent(path.slice('/v1/models/'.length)) };
  } catch {
    return unknownOperation;
  }
}

/** The parts of a request's head that admission depends on. */
export interface RequestHead extends Credentials {
  readonly host: string | undefined;
  /** The target of a listener with a single target, which ignores the host. */
  readonly fixed?: Target | undefined;
  /** A visitor of the playground, who needs neither host nor key. */
  readonly visitor?: string | undefined;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
}

/** The state of the gateway that a decision depends on. */
export interface Conditions {
  /** Is the snapshot too old to prove a key? */
  readonly fenced: boolean;
  /** Can no more usage be recorded? */
  readonly outboxFull: boolean;
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
}

/** Filled in step by step, so that logs and metrics have the known parts of a refused request. */
export interface AdmissionProgress {
  target?: Target;
  operation?: Operation;
  caller?: Caller;
}

export type Admitted =
  /** The body of a model listing. */
  { readonly kind: 'listing'; readonly body: string } | AdmittedInference;

export interface AdmittedInference {
  readonly kind: 'inference';
  readonly target: Target;
  readonly operation: Exclude<Operation, ListingOperation>;
  readonly caller: Client;
}

/** The decisions before the body is read. Throws a Refusal. */
export function admit(
  lookup: Lookup,
  hosts: HostNames,
  head: RequestHead,
  conditions: Pick<Conditions, 'fenced' | 'nowMs'>,
  progress: AdmissionProgress,
): Admitted {
  const isVisitor = head.visitor !== undefined;
  const target = head.fixed ?? (isVisitor ? sharedTarget : resolveHost(head.host, hosts));
  progress.target = target;
  const operation = resolveOperation(head.method, head.path);
  progress.operation = operation;
  const caller = identify(lookup, target, operation, head, conditions);
  progress.caller = caller;
  if (operation.kind === 'unknown') throw new Refusal('NotFoundError', 'There is nothing at this path.');
  if (operation.kind === 'models' || operation.kind === 'model')
    return { kind: 'listing', body: listModels(lookup, target, caller, operation) };
  if (caller.kind === 'nobody') throw unauthorized('missing');
  return { kind: 'inference', target, operation, caller };
}

/** The model listing on the shared host is the one thing that needs no key (Authentication 7). */
export function needsKey(target: Target, operation: Operation): boolean {
  return target.kind === 'stack' || !(operation.kind === 'models' || operation.kind === 'model');
}

function identify(
  lookup: Lookup,
  target: Target,
  operation: Operation,
  head: RequestHead,
  { fenced, nowMs }: Pick<Conditions, 'fenced' | 'nowMs'>,
): Caller {
  if (head.visitor !== undefined) return { kind: 'anonymous', visitor: head.visitor };
  if (!needsKey(target, operation)) return { kind: 'nobody' };
  if (!fenced) return authenticate(lookup, target, head, nowMs);
  // A snapshot this old proves nothing about a key. One response for every credential hides which keys pass the checksum.
  if (carriesCredential(target, head)) throw cannotTakeNow('fenced');
  throw unauthorized('fenced');
}
