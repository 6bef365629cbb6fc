/**
 * The decision on a request before anything is sent: a pure function of the snapshot's answers, the counters, the
 * request's facts and the time. Live serving, explanation and replay all call it.
 * The route is worked out first and reveals nothing; then plan, limits and routing answer in the order of the design.
 */
import type { Lookup, TierLimits } from '../snapshot/lookup.ts';
import type { Target } from './address.ts';
import { type Client, subjectOf } from './authenticate.ts';
import { admit, type Counters, type LimitFacts } from './limits.ts';
import { Refusal } from './refusal.ts';
import { notInPlan, type Placement, type RoutingFacts, route } from './route.ts';

export interface RequestFacts {
  readonly target: Target;
  readonly caller: Client;
  readonly model: string;
  readonly surface: RoutingFacts['surface'];
  /** Tokens of the prompt: counted, or a bound from above. */
  readonly promptTokens: number;
  /** A bound from below; undefined where `promptTokens` was counted. Read only where the bound from above does not fit. */
  readonly promptTokensLeast?: number | undefined;
  /** Tokens asked for; undefined where the request asks for no number. */
  readonly maxTokens: number | undefined;
}

export interface Decision {
  /** Where it goes, or the router's refusal: the request counts against its limits either way. */
  readonly placement: Placement | Refusal;
  readonly tier: TierLimits;
  /** What is counted while the request is in flight. */
  readonly subject: string;
  readonly weight: number;
  /** The bounds of the prompt leave open whether it fits the tier: it is to be counted before anything is forwarded. */
  readonly uncounted: boolean;
}

/** Needs: the prompt and what is asked for, or one token where nothing is. */
export function contextNeeded(facts: Pick<RequestFacts, 'promptTokens' | 'maxTokens'>): number {
  return facts.promptTokens + (facts.maxTokens ?? 1);
}

/** A model that the pool does not have weighs 1 where it is refused, so that it does not reveal the models of others. */
function weightOf(lookup: Lookup, model: string, placement: Placement | Refusal): number {
  return placement instanceof Refusal && !lookup.isPooled(model) ? 1 : lookup.weight(model);
}

function tierOf(lookup: Lookup, caller: RequestFacts['caller']): TierLimits | null {
  if (caller.kind === 'anonymous') return lookup.anonymousTier() ?? null;
  return caller.owner.suspended ? null : caller.owner.tier;
}

/** Would the pool answer? Only then is the allowance asked: the model is installed there, in the plan, and no own node serves it. */
function usesPool(
  lookup: Lookup,
  facts: RequestFacts,
  tier: TierLimits,
  placement: Placement | Refusal,
): boolean {
  if (facts.target.kind === 'stack') return false;
  if (!(placement instanceof Refusal)) return placement.capacity === 'pool';
  return (
    facts.surface !== 'anthropic' && lookup.isPooled(facts.model) && lookup.tierIncludes(tier.id, facts.model)
  );
}

function allowanceOf(facts: RequestFacts, counters: Counters, nowMs: number): LimitFacts['allowance'] {
  if (facts.caller.kind === 'anonymous')
    return { kind: 'turns', used: counters.freeTurns(facts.caller.visitor) };
  const { organisation, anchor } = facts.caller.owner;
  return { kind: 'tokens', used: counters.poolTokens(organisation, anchor, nowMs) };
}

/** Throws what plan and limits refuse; returns what routing found for a request that passed them. */
export function decide(lookup: Lookup, counters: Counters, facts: RequestFacts, nowMs: number): Decision {
  const { caller, promptTokens, maxTokens } = facts;
  const tier = tierOf(lookup, caller);
  if (tier === null) throw notInPlan('no entitlement');
  const organisation = caller.kind === 'key' ? caller.owner.organisation : null;
  const placement = route(lookup, {
    target: facts.target,
    organisation,
    tier: tier.id,
    model: facts.model,
    surface: facts.surface,
  });
  const subject = subjectOf(caller);
  const weight = weightOf(lookup, facts.model, placement);
  const pooled = usesPool(lookup, facts, tier, placement);
  const uncounted = contextNeeded(facts) > (tier.contextTokens ?? Number.POSITIVE_INFINITY);
  const promptTokensLeast = uncounted ? facts.promptTokensLeast : undefined;
  const limits: LimitFacts = {
    subject,
    tier,
    weight,
    model: facts.model,
    contextTokens: contextNeeded({ promptTokens: promptTokensLeast ?? promptTokens, maxTokens }),
    atLeast: promptTokensLeast !== undefined,
    allowance: pooled ? allowanceOf(facts, counters, nowMs) : { kind: 'none' },
    nextTier: () => (tier.rank === null ? undefined : lookup.nextTier(tier.rank)),
  };
  admit(limits, counters, nowMs);
  return { placement, tier, subject, weight, uncounted };
}
