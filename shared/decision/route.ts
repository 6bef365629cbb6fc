/**
 * Where a request goes (Routing algorithm): an organisation's own node, else the pool, else a refusal; or, on a stack
 * host, that stack or a refusal. A pure look-up: nothing is balanced, preferred or fallen back to.
 */
import type { Lookup, Route } from '../snapshot/lookup.ts';
import { Refusal, type RefusalOptions } from './refusal.ts';

/** What the host selects: the shared service, or one stack, which may not exist. */
export type Target = { readonly kind: 'shared' } | { readonly kind: 'stack'; readonly stack: string };

export type Capacity = 'pool' | 'stack' | 'own';

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
}

/** One answer for both causes, so that a foreign stack cannot be distinguished from one that does not serve the model. */
export function targetNotServing(reason: string): Refusal {
  return new Refusal('TargetNotServingError', 'This stack does not serve the requested model.', { reason });
}

export function unavailable(reason: string): Refusal {
  return new Refusal(
    'InferenceUnavailableError',
    'No node is answering for this model now. Try again with exponential backoff, starting around one second.',
    { reason },
  );
}

export function notInPlan(reason: string): Refusal {
  return new Refusal('ModelNotInPlanError', 'The plan of this organisation does not include this model.', {
    reason,
  });
}

export function dedicatedOnly(options?: RefusalOptions): Refusal {
  return new Refusal(
    'DedicatedOnlyModelError',
    'This model is in no shared pool. It can be reached only on a stack that has it installed, at the hostname of that stack.',
    options,
  );
}

function wrongSurface(): Refusal {
  return new Refusal('UnsupportedShapeError', 'This host does not serve this API shape.', {
    reason: 'wrong surface',
  });
}

function routeStack(lookup: Lookup, facts: RoutingFacts, stackId: string): Placement | Refusal {
  const stack = lookup.stack(stackId);
  if (!stack || stack.organisation !== facts.organisation)
    return targetNotServing(stack ? 'foreign stack' : 'no such stack');
  if (facts.surface !== 'any' && facts.surface !== stack.surface) return wrongSurface();
  const candidates = lookup.routes(`stack:${stackId}`, facts.model);
  return candidates.length > 0 ? { capacity: 'stack', candidates } : targetNotServing('not serving');
}

/** The organisation's own node had the model loaded last, and is down or drained now: that passes. */
function ownNodeAway(lookup: Lookup, { organisation, model }: RoutingFacts): Refusal | undefined {
  if (organisation === null || !lookup.loadedLast(`organisation:${organisation}`, model)) return undefined;
  return unavailable('own node away');
}

function routeShared(lookup: Lookup, facts: RoutingFacts): Placement | Refusal {
  if (facts.surface === 'anthropic') return wrongSurface();
  if (facts.organisation !== null) {
    const own = lookup.routes(`organisation:${facts.organisation}`, facts.model);
    if (own.length > 0) return { capacity: 'own', candidates: own };
  }
  if (!lookup.isPooled(facts.model)) return ownNodeAway(lookup, facts) ?? dedicatedOnly();
  if (facts.tier === null || !lookup.tierIncludes(facts.tier, facts.model))
    return notInPlan('model not in plan');
  const candidates = lookup.routes('pool', facts.model);
  return candidates.length > 0 ? { capacity: 'pool', candidates } : unavailable('no node answers');
}

/** The place that answers, or the refusal. Returned and not thrown, because limits answer before routing does. */
export function route(lookup: Lookup, facts: RoutingFacts): Placement | Refusal {
  if (facts.tier === null) return notInPlan('no entitlement');
  return facts.target.kind === 'stack'
    ? routeStack(lookup, facts, facts.target.stack)
    : routeShared(lookup, facts);
}
