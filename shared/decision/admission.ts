/**
 * Combines all decisions made before a request is sent to a node: host, operation, key, plan, limits and route. Serving,
 * `explain` and replay share this code so that they agree. It must stay pure: the look-up, time and the gateway's state are
 * parameters. Serving calls `admit` with a request's head (host → operation → key → listing), then `decideRequest` with its
 * body. `admission` calls both. Responses must not reveal which stacks exist.
 */

import { type InferenceKind, listPaths, operationKinds, operations } from '../../schemas/api/operations.ts';
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
import {
  type Conditions,
  type Counters,
  type Decision,
  decideRequest,
  planReads,
  type RequestFacts,
} from './decide.ts';
import { isListing, type ListingOperation, listModels } from './model-listing.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';
import type { Target } from './route.ts';
import { refuse, type Trace } from './trace.ts';

export interface HostNames {
  /** Names of the shared host, in lower case, without a port. `*` matches any name whose first label is not a stack id. */
  readonly shared: ReadonlySet<string>;
  /** Domain of stack hosts, in lower case. A stack's host is `<stack id>.<stackDomain>`. */
  readonly stackDomain: string;
}

const sharedTarget: Target = { kind: 'shared' };

/** Resolves a `Host` header, whose port is ignored. Throws a refusal if the host is unknown. */
export function resolveHost(header: string | undefined, names: HostNames): Target {
  const host = withoutPort(header ?? '').toLowerCase();
  if (names.shared.has(host)) return sharedTarget;
  const suffix = `.${names.stackDomain}`;
  if (host.endsWith(suffix)) {
    const label = host.slice(0, -suffix.length);
    if (stackIdSchema.safeParse(label).success) return { kind: 'stack', stack: label };
  }
  // A first label shaped like a stack id means that the client wants a stack, so the shared pool must not serve the request.
  const isStackName = stackIdSchema.safeParse(host.split('.', 1)[0]).success;
  if (names.shared.has('*') && !isStackName) return sharedTarget;
  throw new Refusal('unknown host', 'This host is not served here. Check the hostname.');
}

function withoutPort(host: string): string {
  if (host.startsWith('[')) return host.slice(1, host.indexOf(']') === -1 ? undefined : host.indexOf(']'));
  const colon = host.indexOf(':');
  const name = colon === -1 ? host : host.slice(0, colon);
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

export type Operation = { readonly kind: InferenceKind | 'unknown' } | ListingOperation;

const unknownOperation: Operation = { kind: 'unknown' };
const known = new Map<string, Operation>(
  operationKinds.flatMap((kind) =>
    kind === 'model' ? [] : listPaths(kind).map((path): [string, Operation] => [path, { kind }]),
  ),
);
const modelPath = operations.model.path.slice(0, -'{model}'.length);

/** Finds the operation for a method and a path. `path` excludes the query string. */
export function resolveOperation(method: string, path: string): Operation {
  const operation = known.get(path) ?? parseModelPath(path);
  const isTaken = operations[operation.kind].method === (method === 'HEAD' ? 'GET' : method);
  return isTaken ? operation : unknownOperation;
}

function parseModelPath(path: string): Operation {
  if (!path.startsWith(modelPath) || path.length === modelPath.length) return unknownOperation;
  try {
    return { kind: 'model', model: decodeURIComponent(path.slice(modelPath.length)) };
  } catch {
    return unknownOperation;
  }
}

/** Parts of a request's head that admission depends on. */
export interface RequestHead extends Credentials {
  readonly host: string | undefined;
  /** Target of every request to this listener, for a listener that ignores the `Host` header. */
  readonly fixed?: Target | undefined;
  /** Id of a playground visitor, who needs neither a host nor a key. */
  readonly visitor?: string | undefined;
  /** Keyed hash of the visitor's network and the current day. */
  readonly network?: string | undefined;
  readonly method: string;
  /** URL path without the query string. */
  readonly path: string;
}

/** Results of admission so far. Each step adds its own, so that logs and metrics of a refusal show what was decided. */
export interface AdmissionProgress {
  target?: Target | undefined;
  operation?: Operation | undefined;
  caller?: Caller | undefined;
}

export type Admission = { readonly kind: 'listing'; readonly body: string } | AdmittedInference;

export interface AdmittedInference {
  readonly kind: 'inference';
  readonly target: Target;
  readonly operation: Exclude<Operation, ListingOperation>;
  readonly caller: Client;
}

/** Makes the decisions that do not need the body. Throws a `Refusal`. With a trace, continues after it if possible. */
export function admit(
  lookup: Lookup,
  hosts: HostNames,
  head: RequestHead,
  conditions: Pick<Conditions, 'fenced' | 'nowMs'>,
  progress: AdmissionProgress,
  trace?: Trace,
): Admission {
  const isVisitor = head.visitor !== undefined;
  const target = head.fixed ?? (isVisitor ? sharedTarget : resolveHost(head.host, hosts));
  progress.target = target;
  trace?.add('host', 'ok', { ...target });
  const operation = resolveOperation(head.method, head.path);
  progress.operation = operation;
  const caller = identify(lookup, target, operation, head, conditions, trace);
  progress.caller = caller;
  if (operation.kind === 'unknown') throw noSuchPath(head);
  if (isSlashBehindModel(operation)) throw noSuchPath(head);
  trace?.add('path', 'ok', { operation: operation.kind });
  if (isListing(operation)) return { kind: 'listing', body: listModels(lookup, target, caller, operation) };
  if (caller.kind === 'nobody') throw unauthorized('missing');
  return { kind: 'inference', target, operation, caller };
}

/** Whether the requested model's name ends with a slash. The slash is a typing error, because no model name ends with one. */
function isSlashBehindModel(operation: Operation): boolean {
  return operation.kind === 'model' && operation.model.endsWith('/');
}

function noSuchPath({ method, path }: RequestHead): Refusal {
  const cleaned = path.replace(/\/{2,}/g, '/').replace(/\/$/, '');
  const isSlip = cleaned !== path && resolveOperation(method, cleaned).kind !== 'unknown';
  const hint = isSlip ? ' Remove the extra slash.' : '';
  return new Refusal('no such path', `No endpoint has this method and path.${hint}`);
}

/** Whether the operation needs a key. Only model listings on the shared host need none (Authentication 7). */
function needsKey(target: Target, operation: Operation): boolean {
  return target.kind === 'stack' || !isListing(operation);
}

function identify(
  lookup: Lookup,
  target: Target,
  operation: Operation,
  head: RequestHead,
  { fenced, nowMs }: Pick<Conditions, 'fenced' | 'nowMs'>,
  trace: Trace | undefined,
): Caller {
  if (head.visitor !== undefined)
    return { kind: 'anonymous', visitor: head.visitor, network: head.network, admittedMs: nowMs };
  if (!needsKey(target, operation)) return { kind: 'nobody' };
  if (!fenced) {
    trace?.add('fresh', 'ok');
    return authenticate(lookup, target, head, nowMs, trace);
  }
  // A snapshot this old cannot prove keys valid. All keys get the same response, so that valid checksums stay secret.
  if (carriesCredential(target, head)) refuse(trace, cannotTakeNow('fenced'));
  else refuse(trace, unauthorized('fenced without a key'));
  return authenticate(lookup, target, head, nowMs, trace);
}

/** Facts about a request from its head and its body. Together with the gateway's state, they determine the decision. */
export interface AdmissionFacts extends RequestHead {
  readonly model: string;
  readonly promptTokensMax: number;
  /** Lower bound on the number of prompt tokens, or undefined if the tokens were counted exactly. */
  readonly promptTokensLeast?: number | undefined;
  /** Requested number of completion tokens, or undefined if the request does not state one. */
  readonly maxTokens: number | undefined;
}

export type Verdict =
  /** If `counted` is true, the request passed all limits before it was refused, so it counts against them. */
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly counted: boolean }
  | { readonly kind: 'placed'; readonly decision: Decision }
  | { readonly kind: 'listed'; readonly body: string };

/** Decides a request from its facts. A trace, if passed, records every step. Throws only if this code is faulty. */
export function admission(
  { lookup, hosts }: { readonly lookup: Lookup; readonly hosts: HostNames },
  facts: AdmissionFacts,
  counters: Counters,
  conditions: Conditions,
  trace?: Trace,
): Verdict {
  const progress: AdmissionProgress = {};
  let verdict: Verdict;
  try {
    const admitted = admit(lookup, hosts, facts, conditions, progress, trace);
    if (admitted.kind === 'listing') {
      verdict = { kind: 'listed', body: admitted.body };
      trace?.add('listing', 'ok');
    } else {
      const { promptTokensLeast: least } = facts;
      const promptTokensLeast = least === undefined ? undefined : () => least;
      const request = requestFacts(admitted, { ...facts, promptTokensLeast });
      const decision = decideRequest(lookup, counters, request, conditions, trace);
      const { placement } = decision;
      verdict =
        placement instanceof Refusal
          ? { kind: 'refused', refusal: placement, counted: true }
          : { kind: 'placed', decision };
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    verdict = { kind: 'refused', refusal: error, counted: false };
    if (trace !== undefined) refuseLast(trace, progress, error);
  }
  const first = trace?.refusal;
  if (first === undefined) return verdict;
  return {
    kind: 'refused',
    refusal: first,
    counted: verdict.kind === 'refused' && verdict.counted && verdict.refusal === first,
  };
}

/** Records a refusal after which nothing further can be decided. */
function refuseLast(trace: Trace, { caller }: AdmissionProgress, refusal: Refusal): void {
  const { type } = refusal;
  const isOfPlan = type === 'ModelNotInPlanError' && caller?.kind === 'key';
  const facts = { type, ...(isOfPlan && { suspended: caller.owner.suspended }) };
  trace.refuse(refusal, facts, isOfPlan ? planReads(caller, null) : []);
}

type BodyFacts = Pick<RequestFacts, 'model' | 'promptTokensMax' | 'promptTokensLeast' | 'maxTokens'>;

/** Adds the facts that follow from the operation. Operations that do not generate text request no completion tokens. */
export function requestFacts(
  { target, operation, caller }: AdmittedInference,
  { model, promptTokensMax, promptTokensLeast, maxTokens }: BodyFacts,
): RequestFacts {
  const { surface, countsAs } = operations[operation.kind];
  return {
    target,
    caller,
    model,
    surface,
    promptTokensMax,
    promptTokensLeast,
    maxTokens: countsAs === 'generation' ? maxTokens : 0,
    onlyCounts: countsAs === 'count',
    reranks: countsAs === 'rerank',
  };
}
