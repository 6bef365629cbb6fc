/**
 * Chooses the place that serves a request (specification, Routing algorithm). On the shared host, this is a node of the
 * caller's organisation or else the pool. On a stack's host, it is always that stack. Routing is a pure look-up. It must not
 * balance load, prefer nodes or fall back to another place.
 */

import { operations } from '../../schemas/api/operations.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { Capacity } from '../../schemas/records/usage.ts';
import type { Lookup, Route } from '../snapshot/lookup.ts';
import type { CauseWithType } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Read } from './step.ts';
import type { Trace } from './trace.ts';

/** Target that a request's host selects: the shared service, or one stack, which may not exist. */
export type Target = { readonly kind: 'shared' } | { readonly kind: 'stack'; readonly stack: string };

export interface Placement {
  readonly capacity: Capacity;
  /** Nodes of the chosen place that serve the model. Never empty. */
  readonly candidates: readonly Route[];
}

export interface RoutingFacts {
  readonly target: Target;
  /** Organisation of the caller. null for a visitor, who must never reach dedicated capacity. */
  readonly organisation: string | null;
  /** Plan of the organisation. null means that the organisation may not use inference. */
  readonly tier: string | null;
  readonly model: string;
  /** API family of the request's path. `any` is for paths that belong to no single family, such as embeddings. */
  readonly surface: 'openai' | 'anthropic' | 'any';
  /** Whether the request needs a reranking model. Such models cannot serve other requests. */
  readonly reranks: boolean;
}

/** Refusal with the same text for all causes, so that a client cannot tell a foreign stack from a stack without the model. */
export function targetNotServing(cause: CauseWithType<'TargetNotServingError'>, detail?: string): Refusal {
  return new Refusal(cause, 'This stack does not serve the requested model.', { detail });
}

export function unavailable(cause: CauseWithType<'InferenceUnavailableError'>, detail?: string): Refusal {
  return new Refusal(
    cause,
    'No node is answering for this model now. Try again with exponential backoff, starting around one second.',
    { detail },
  );
}

/** Refusal on the shared host for a node that failed before it sent the first byte. `detail` is for the log. */
export function nodeFailed(detail: string): Refusal {
  return unavailable('node failed', detail);
}

export function nodeOfStackFailed(detail: string): Refusal {
  return targetNotServing('node of a stack failed', detail);
}

/** Refusal for a caller whose plan does not include the model. `organisation` is null for a visitor. */
function notInPlan(organisation: string | null): Refusal {
  return new Refusal(
    'model not in plan',
    organisation === null
      ? 'Visitors cannot use this model. Sign in to use more models.'
      : 'The plan of this organisation does not include this model.',
  );
}

/** Refusal for an organisation that is suspended or has no tier, so it may use no model, even on its nodes and stacks. */
export function withoutPlan(
  cause: Exclude<CauseWithType<'ModelNotInPlanError'>, 'model not in plan'>,
): Refusal {
  return new Refusal(
    cause,
    'This organisation has no active plan, so it cannot use any model. Contact the service operator.',
  );
}

/** Refusal for all visitors, including those of the playground, if visitors are not served. */
export function noVisitors(): Refusal {
  return new Refusal('no visitors', 'Visitors are not served here.');
}

/** Refusal for a caller without a plan. `organisation` is null for a visitor. */
export function refuseWithoutPlan(organisation: string | null): Refusal {
  return organisation === null ? noVisitors() : withoutPlan('no entitlement');
}

/** Refusal if a model is not available on this host. The text does not show whether another organisation has it. */
export function dedicatedOnly(cause: CauseWithType<'DedicatedOnlyModelError'>): Refusal {
  return new Refusal(
    cause,
    'This host has no model with this name. GET /v1/models lists the models of this host. Call the model of a dedicated stack at the hostname of that stack.',
  );
}

function wrongSurface(): Refusal {
  return new Refusal('wrong surface', 'This host does not serve the API style of this path.');
}

function wrongKind(reranks: boolean): Refusal {
  return new Refusal(
    'wrong kind',
    reranks
      ? 'model: this model is not known to rerank documents. Choose a model that does.'
      : `model: this model only reranks documents. Send the request to ${operations.rerank.path}.`,
  );
}

/** Keeps the nodes whose model is of the requested kind, reranking or not. Usually, these are all nodes. */
function ofKind(
  capacity: Capacity,
  candidates: readonly Route[],
  { reranks }: RoutingFacts,
): Placement | Refusal {
  for (const route of candidates) {
    if (route.reranks === reranks) continue;
    const rest = candidates.filter((other) => other.reranks === reranks);
    return rest.length > 0 ? { capacity, candidates: rest } : wrongKind(reranks);
  }
  return { capacity, candidates };
}

/** Whether the decision ends at this refusal. With a trace, the refusal is recorded and the next step is decided too. */
function ends(trace: Trace | undefined, refusal: Refusal, reads: readonly Read[] = []): boolean {
  trace?.refuse(refusal, {}, reads);
  return trace === undefined;
}

function surfaceReads(id: string): readonly Read[] {
  return [{ table: 'stack', id, mark: 'surface_set_at' }];
}

function routeStack(
  lookup: Lookup,
  facts: RoutingFacts,
  stackId: string,
  trace: Trace | undefined,
): Placement | Refusal {
  const stack = lookup.stack(stackId);
  if (!stack || stack.organisation !== facts.organisation) {
    const refusal = targetNotServing(stack ? 'foreign stack' : 'no such stack');
    trace?.refuse(refusal, { stack: stackId });
    return refusal;
  }
  trace?.add('stack', 'ok', { stack: stackId }, [{ table: 'stack', id: stackId }]);
  let wrong: Refusal | undefined;
  if (facts.surface !== 'any' && facts.surface !== stack.surface) {
    wrong = wrongSurface();
    if (ends(trace, wrong, surfaceReads(stackId))) return wrong;
  }
  trace?.add('surface', 'ok', { surface: stack.surface }, surfaceReads(stackId));
  const candidates = lookup.routes(`stack:${stackId}`, facts.model);
  const answer: Placement | Refusal =
    candidates.length > 0 ? ofKind('stack', candidates, facts) : targetNotServing('not serving');
  noteNodes(trace, answer, `stack:${stackId}`, facts);
  return wrong ?? answer;
}

/** Temporary refusal if a node of the caller's organisation last had the model loaded and is now down or drained. */
function ownNodeAway(lookup: Lookup, { organisation, model }: RoutingFacts): Refusal | undefined {
  if (organisation === null || !lookup.loadedLast(`organisation:${organisation}`, model)) return undefined;
  return unavailable('own node away');
}

function routeShared(lookup: Lookup, facts: RoutingFacts, trace: Trace | undefined): Placement | Refusal {
  let wrong: Refusal | undefined;
  if (facts.surface === 'anthropic') {
    wrong = wrongSurface();
    if (ends(trace, wrong)) return wrong;
  }
  if (facts.organisation !== null) {
    const own = lookup.routes(`organisation:${facts.organisation}`, facts.model);
    if (own.length > 0) {
      const place: PlaceKey = `organisation:${facts.organisation}`;
      trace?.add('own nodes', 'ok', { place, nodes: routeNodes(own) });
      const placed = ofKind('own', own, facts);
      if (placed instanceof Refusal) noteNodes(trace, placed, place, facts);
      return wrong ?? placed;
    }
    trace?.add('own nodes', 'refused', { place: `organisation:${facts.organisation}` });
  }
  return routePool(lookup, facts, trace, wrong);
}

/** Routes to the pool. An earlier step's refusal, `wrong`, stays the result even if the pool could serve the request. */
function routePool(
  lookup: Lookup,
  facts: RoutingFacts,
  trace: Trace | undefined,
  wrong: Refusal | undefined,
): Placement | Refusal {
  let first = wrong;
  if (!lookup.isPooled(facts.model)) {
    const refusal = ownNodeAway(lookup, facts) ?? dedicatedOnly('no pool');
    first ??= refusal;
    if (trace === undefined) return first;
    const unknown = refusal.cause === 'no pool' && !lookup.isCatalogued(facts.model);
    trace.refuse(refusal, unknown ? { unknown } : {}, [{ table: 'pool_model', id: facts.model }]);
    if (unknown) return first;
  }
  trace?.add('pool', 'ok', {}, [{ table: 'pool_model', id: facts.model }]);
  if (facts.tier === null || !lookup.tierIncludes(facts.tier, facts.model)) {
    const refusal = notInPlan(facts.organisation);
    first ??= refusal;
    if (ends(trace, refusal, tierReads(facts))) return refusal;
  }
  trace?.add('tier', 'ok', { tier: facts.tier }, tierReads(facts));
  const candidates = lookup.routes('pool', facts.model);
  const answer: Placement | Refusal =
    candidates.length > 0 ? ofKind('pool', candidates, facts) : unavailable('no node answers');
  noteNodes(trace, answer, 'pool', facts);
  return first ?? answer;
}

function tierReads({ tier }: RoutingFacts): readonly Read[] {
  return tier === null ? [] : [{ table: 'tier', id: tier }];
}

function noteNodes(
  trace: Trace | undefined,
  answer: Placement | Refusal,
  place: PlaceKey,
  { reranks }: RoutingFacts,
): void {
  if (answer instanceof Refusal)
    trace?.refuse(answer, { place, ...(answer.cause === 'wrong kind' && { asksToRerank: reranks }) });
  else trace?.add('nodes', 'ok', { place, nodes: routeNodes(answer.candidates) });
}

function routeNodes(candidates: readonly Route[]): readonly string[] {
  return candidates.map(({ node }) => node).sort();
}

/** Returns the place or a refusal. Does not throw the refusal, because limits are reported first. Traces every step. */
export function route(lookup: Lookup, facts: RoutingFacts, trace?: Trace): Placement | Refusal {
  if (facts.tier === null && trace === undefined) return refuseWithoutPlan(facts.organisation);
  return facts.target.kind === 'stack'
    ? routeStack(lookup, facts, facts.target.stack, trace)
    : routeShared(lookup, facts, trace);
}
