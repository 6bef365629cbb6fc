/**
 * Admission: all decisions before a request reaches a node, composed once for live serving and for replay.
 * Before the body: host → operation → key → listing. With the body: freshness → plan → limits → route.
 * Pure: look-up, counters, time and the state of the gateway are parameters.
 */
import type { Lookup } from '../snapshot/lookup.ts';
import {
  type HostNames,
  type ListingOperation,
  type Operation,
  resolveHost,
  resolveOperation,
  sharedTarget,
  type Target,
} from './address.ts';
import {
  authenticate,
  type Caller,
  type Client,
  type Credentials,
  carriesCredential,
  needsKey,
  unauthorized,
} from './authenticate.ts';
import { type Decision, decide, type RequestFacts } from './decide.ts';
import type { Counters } from './limits.ts';
import { listModels } from './model-listing.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';

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

/**
 * The decision with the body. Freshness is checked again, because the body may have taken long, and a suspended process
 * resumes with an old snapshot. Throws the refusals of plan and limits.
 */
export function judge(
  lookup: Lookup,
  counters: Counters,
  facts: RequestFacts,
  { fenced, outboxFull, nowMs }: Conditions,
): Decision {
  if (fenced) throw cannotTakeNow('fenced');
  if (outboxFull) throw cannotTakeNow('outbox full');
  return decide(lookup, counters, facts, nowMs);
}
