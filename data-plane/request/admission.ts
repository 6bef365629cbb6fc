/**
 * What is decided of a request before anything is sent to a node, composed once for live serving and for replay:
 * host → operation → key → listing, and then, with what the body asks for, freshness → plan → limits → route.
 * Pure: the look-up, the counters, the time and the state of the gateway are handed in.
 */
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import {
  authenticate,
  type Caller,
  type Credentials,
  carriesCredential,
  needsKey,
  unauthorized,
} from './authenticate.ts';
import { decide, type RequestFacts, type Verdict } from './decide.ts';
import { type HostNames, resolveHost, sharedTarget, type Target } from './host.ts';
import type { Counters } from './limits.ts';
import { listModels } from './models.ts';
import { type ListingOperation, type Operation, resolveOperation } from './operation.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';

/** What of a request's head counts. */
export interface Head extends Credentials {
  readonly host: string | undefined;
  /** The target of a listener that serves one only: the host is not read there. */
  readonly fixed?: Target | undefined;
  /** A visitor of the playground: neither host nor key is read. */
  readonly visitor?: string | undefined;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
}

/** The state that a decision depends on, beside look-up and counters. */
export interface Conditions {
  /** Is the snapshot too old to prove a key? */
  readonly fenced: boolean;
  /** Can no more usage be recorded? */
  readonly outboxFull: boolean;
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
}

/** What was found so far; filled in step by step, so that it is there where a step refuses. */
export interface Seen {
  target?: Target;
  operation?: Operation;
  caller?: Caller;
}

export type Entered =
  /** The body of a model listing. */
  | { readonly kind: 'listing'; readonly body: string }
  | {
      readonly kind: 'inference';
      readonly target: Target;
      readonly operation: Exclude<Operation, ListingOperation>;
      readonly caller: RequestFacts['caller'];
    };

/** Everything that precedes the body. Throws a Refusal. */
export function enter(
  lookup: Lookup,
  hosts: HostNames,
  head: Head,
  conditions: Pick<Conditions, 'fenced' | 'nowMs'>,
  seen: Seen,
): Entered {
  const isVisitor = head.visitor !== undefined;
  const target = head.fixed ?? (isVisitor ? sharedTarget : resolveHost(head.host, hosts));
  seen.target = target;
  const operation = resolveOperation(head.method, head.path);
  seen.operation = operation;
  const caller = identify(lookup, target, operation, head, conditions);
  seen.caller = caller;
  if (operation.kind === 'unknown') throw new Refusal('NotFoundError', 'There is nothing at this path.');
  if (operation.kind === 'models' || operation.kind === 'model')
    return { kind: 'listing', body: listModels(lookup, target, caller, operation) };
  if (caller.kind === 'nobody') throw unauthorized('missing');
  return { kind: 'inference', target, operation, caller };
}

function identify(
  lookup: Lookup,
  target: Target,
  operation: Operation,
  head: Head,
  { fenced, nowMs }: Pick<Conditions, 'fenced' | 'nowMs'>,
): Caller {
  if (head.visitor !== undefined) return { kind: 'anonymous', visitor: head.visitor };
  if (!needsKey(target, operation)) return { kind: 'nobody' };
  if (!fenced) return authenticate(lookup, target, head, nowMs);
  // A snapshot this old proves nothing of a key, and no answer may show whether a key passes its checksum.
  if (carriesCredential(target, head)) throw cannotTakeNow('fenced');
  throw unauthorized('fenced');
}

/**
 * The verdict on a request whose needs are known. Freshness is asked again, because a body may have taken long and a
 * frozen process wakes up with an old snapshot. Throws what plan and limits refuse.
 */
export function judge(
  lookup: Lookup,
  counters: Counters,
  facts: RequestFacts,
  { fenced, outboxFull, nowMs }: Conditions,
): Verdict {
  if (fenced) throw cannotTakeNow('fenced');
  if (outboxFull) throw cannotTakeNow('outbox full');
  return decide(lookup, counters, facts, nowMs);
}
