/**
 * Where a request goes (Routing algorithm): an organisation's own node, else the pool, else a refusal; or, on a stack
 * host, that stack or a refusal. A pure look-up: nothing is balanced, preferred or fallen back to.
 */

import { operations } from '../../schemas/api/operations.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { Capacity } from '../../schemas/records/usage.ts';
import type { Lookup, Route } from '../snapshot/lookup.ts';
import type { CauseOf } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Read } from './step.ts';
import type { Trace } from './trace.ts';

/** What the host selects: the shared service, or one stack, which may not exist. */
export type Target = { readonly kind: 'shared' } | { readonly kind: 'stack'; readonly stack: string };

export interface Placement {
  readonly capacity: Capacity;
  /** Nodes of the one place that routing chose; never empty. */
  readonly candidates: readonly Route[];
}

export interface RoutingFacts {
  readonly target: Target;
  /** null: an anonymous visitor, who never reaches dedicated capacity. */
  readonly organisation: string | null;
  /** The plan; null: no inference entitlement. */
  readonly tier: string | null;
  readonly model: string;
  /** The API surface of the path; embeddings are on every surface. */
  readonly surface: 'openai' | 'anthropic' | 'any';
  /** Only a model that reranks answers it, and such a model answers nothing else. */
  readonly reranks: boolean;
}

/** One answer for all causes, so that a foreign stack cannot be distinguished from one that does not serve the model. */
export function targetNotServing(cause: CauseOf<'TargetNotServingError'>, detail?: string): Refusal {
  return new Refusal(cause, 'This stack does not serve the requested model.', { detail });
}

export function unavailable(cause: CauseOf<'InferenceUnavailableError'>, detail?: string): Refusal {
  return new Refusal(
    cause,
    'No node is answering for this model now. Try again with exponential backoff, starting around one second.',
    { detail },
  );
}

/** A node failed before the first byte, as the host has it. `detail` is for the log. */
export function nodeFailed(detail: string): Refusal {
  return unavailable('node failed', detail);
}

export function nodeOfStackFailed(detail: string): Refusal {
  return targetNotServing('node of a stack failed', detail);
}

/** Refuses a caller whose plan does not include the model. `organisation` is null for a visitor. */
function notInPlan(organisation: string | null): Refusal {
  return new Refusal(
    'model not in plan',
    organisation === null
      ? 'Visitors cannot use this model. Sign in to use more models.'
      : 'The plan of this organisation does not include this model.',
  );
}

/** Refuses an organisation that is suspended or has no tier. It cannot use any model, not even on its own nodes and stacks. */
export function withoutPlan(cause: Exclude<CauseOf<'ModelNotInPlanError'>, 'model not in plan'>): Refusal {
  return new Refusal(
    cause,
    'This organisation has no active plan, so it cannot use any model. Contact the service operator.',
  );
}

/** Refuses a visitor if visitors are not served. The playground refuses each of its calls with this, too. */
export function noVisitors(): Refusal {
  return new Refusal('no visitors', 'Visitors are not served here.');
}

/** Refuses a caller without a plan. `organisation` is null for a visitor. */
export function refuseWithoutPlan(organisation: string | null): Refusal {
  return organisation === null ? noVisitors() : withoutPlan('no entitlement');
}

/** Refuses a model that is not available here. The text does not show whether another organisation has it. */
export function dedicatedOnly(cause: CauseOf<'DedicatedOnlyModelError'>): Refusal {
  return new Refusal(
    cause,
    'No model of this name is available on this host. GET /v1/models lists the models that are. A model of a dedicated stack is called at the hostname of that stack.',
  );
}

function wrongSurface(): Refusal {
  return new Refusal('wrong surface', 'This host does not serve this API shape.');
}

function wrongKind(reranks: boolean): Refusal {
  return new Refusal(
    'wrong kind',
    reranks
      ? 'model: this model is not known to rerank documents; ask one that is.'
      : `model: this model reranks documents and does nothing else: send it to ${operations.rerank.path}.`,
  );
}

/** The nodes of a place whose model is of the kind that is asked for, usually all of them. */
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

/** Serving ends at a refusal; with a trace it is noted, and the next step is decided too. */
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

/** The organisation's own node had the model loaded last, and is down or drained now: that passes. */
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
      trace?.add('own nodes', 'ok', { place, nodes: nodesOf(own) });
      const placed = ofKind('own', own, facts);
      if (placed instanceof Refusal) noteNodes(trace, placed, place, facts);
      return wrong ?? placed;
    }
    trace?.add('own nodes', 'refused', { place: `organisation:${facts.organisation}` });
  }
  return routePool(lookup, facts, trace, wrong);
}

/** `wrong`: a refusal before, which stays the answer. */
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
  else trace?.add('nodes', 'ok', { place, nodes: nodesOf(answer.candidates) });
}

function nodesOf(candidates: readonly Route[]): readonly string[] {
  return candidates.map(({ node }) => node).sort();
}

/**
 * The place that answers, or the refusal. Returned and not thrown, because limits answer before routing does. With a trace
 * every step is noted, those after the refusal too.
 */
export function route(lookup: Lookup, facts: RoutingFacts, trace?: Trace): Placement | Refusal {
  if (facts.tier === null && trace === undefined) return refuseWithoutPlan(facts.organisation);
  return facts.target.kind === 'stack'
    ? routeStack(lookup, facts, facts.target.stack, trace)
    : routeShared(lookup, facts, trace);
}
