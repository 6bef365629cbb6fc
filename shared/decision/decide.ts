/**
 * The decision on a request with its body, before anything is sent: freshness → plan → limits → route.
 * Pure: the snapshot's answers, the counters, the facts, the time and the state of the gateway are parameters. Live serving
 * and replay both call it. The route is worked out first and reveals nothing; then plan, limits and routing answer in order:
 * context → allowance → requests per minute → concurrency → route. Every message of a limit names the tier.
 */
import type { KeyOwner, Lookup, TierLimits, VisitorTotals } from '../snapshot/lookup.ts';
import { type Client, planOf, subjectOf } from './authenticate.ts';
import { checkLimits, type LimitFacts, type RateCounters, visitorFacts, weightWithin } from './limits.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';
import { type Placement, type RoutingFacts, refuseWithoutPlan, route, type Target } from './route.ts';
import type { Read } from './step.ts';
import { refuse, Trace } from './trace.ts';

/** The state of the gateway that a decision depends on. */
export interface Conditions {
  /** Is the snapshot too old to prove a key? */
  readonly fenced: boolean;
  /** Can no more usage be recorded? */
  readonly outboxFull: boolean;
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
}

/** Of the subject of those requests that only count tokens; no id of an organisation has a colon. */
const countingPrefix = 'counting:';

export interface RequestFacts {
  readonly target: Target;
  readonly caller: Client;
  readonly model: string;
  readonly surface: RoutingFacts['surface'];
  /** Upper bound of the prompt's tokens: their exact number if it was counted, otherwise the prompt's bytes. */
  readonly promptTokensMax: number;
  /** Lower bound; undefined if the tokens were counted. Called only if the upper bound does not fit. */
  readonly promptTokensLeast?: (() => number) | undefined;
  /** Tokens asked for; undefined where the request asks for no number. */
  readonly maxTokens: number | undefined;
  /** Its tokens are counted and nothing is generated: it has limits of its own. */
  readonly onlyCounts?: boolean | undefined;
  /** Asks a model to rerank documents. */
  readonly reranks: boolean;
}

export interface Decision {
  /** Where it goes, or the router's refusal: the request counts against its limits either way. */
  readonly placement: Placement | Refusal;
  readonly tier: TierLimits;
  /** The organisation or visitor that asks. */
  readonly subject: string;
  /** Where it counts, in the minute and while it is in flight. */
  readonly counted: string;
  readonly weight: number;
  /** Of a visitor: what is counted of all visitors together, under the subject `visitorsSubject`. */
  readonly total?: VisitorTotals | undefined;
  /** The bounds of the prompt leave open whether it fits the tier: it is to be counted before anything is forwarded. */
  readonly uncounted: boolean;
}

/** What the admission rule reads, however it is counted. */
export interface Counters extends RateCounters {
  /** Tokens that completed pool requests took of this period's allowance. */
  poolTokens(organisation: string, anchor: string, nowMs: number): number;
  /** Turns of a visitor in the month of a moment, of which the subject is: completed, and in flight. */
  freeTurns(visitor: string, atMs: number): number;
}

export const windowMs = 60_000;

/** Start of the subject's window: the minute's phase comes from its id, so that not all windows end at once; counting has the same. */
export function windowStartMs(subject: string, nowMs: number): number {
  let phase = 0;
  const first = subject.startsWith(countingPrefix) ? countingPrefix.length : 0;
  for (let i = first; i < subject.length; i++) phase = (Math.imul(phase, 31) + subject.charCodeAt(i)) >>> 0;
  // Without mixing, ids that differ in a number at their end would share a second.
  phase = Math.imul(phase ^ (phase >>> 16), 0x85ebca6b);
  phase = Math.imul(phase ^ (phase >>> 13), 0xc2b2ae35);
  const offset = ((phase ^ (phase >>> 16)) >>> 0) % windowMs;
  return Math.floor((nowMs - offset) / windowMs) * windowMs + offset;
}

/** Needs: the prompt and what is asked for, or one token where nothing is. */
export function contextNeeded(facts: Pick<RequestFacts, 'promptTokensMax' | 'maxTokens'>): number {
  return facts.promptTokensMax + answerNeeded(facts.maxTokens);
}

function answerNeeded(maxTokens: number | undefined): number {
  return maxTokens ?? 1;
}

/** A model that the pool does not have weighs 1 where it is refused, so that it does not reveal the models of others. */
function weightOf(lookup: Lookup, model: string, placement: Placement | Refusal): number {
  return placement instanceof Refusal && !lookup.isPooled(model) ? 1 : lookup.weight(model);
}

function tierOf(lookup: Lookup, caller: RequestFacts['caller']): TierLimits | null {
  if (caller.kind === 'anonymous') return lookup.anonymousTier() ?? null;
  return planOf(caller.owner);
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
  if (placement.cause === 'wrong kind') return false;
  return (
    facts.surface !== 'anthropic' && lookup.isPooled(facts.model) && lookup.tierIncludes(tier.id, facts.model)
  );
}

function allowanceOf(facts: RequestFacts, counters: Counters, nowMs: number): LimitFacts['allowance'] {
  if (facts.caller.kind === 'anonymous') {
    const { visitor, admittedMs = nowMs } = facts.caller;
    return { kind: 'turns', used: counters.freeTurns(visitor, admittedMs) };
  }
  const { organisation, anchor } = facts.caller.owner;
  return { kind: 'tokens', used: counters.poolTokens(organisation, anchor, nowMs) };
}

function planRead({ organisation: id, suspended }: KeyOwner): Read {
  return { table: 'organisation', id, mark: suspended ? 'suspended_set_at' : 'tier_set_at' };
}

/** The rows that a plan is from. */
export function planReads(caller: Client, tier: TierLimits | null): readonly Read[] {
  const own: Read[] = caller.kind === 'key' ? [planRead(caller.owner)] : [];
  return tier === null ? own : [...own, { table: 'tier', id: tier.id }];
}

function noPlan(caller: Client, trace: Trace | undefined, routeTrace: Trace | undefined): Refusal {
  const refusal = refuseWithoutPlan(caller.kind === 'key' ? caller.owner.organisation : null);
  if (trace === undefined || routeTrace === undefined) return refusal;
  const suspended = caller.kind === 'key' && caller.owner.suspended;
  trace.refuse(refusal, { tier: null, suspended }, planReads(caller, null));
  trace.append(routeTrace);
  return refusal;
}

/** Throws what plan and limits refuse; returns what routing found for a request that passed them. */
export function decide(
  lookup: Lookup,
  counters: Counters,
  facts: RequestFacts,
  nowMs: number,
  trace?: Trace,
): Decision {
  const { caller, promptTokensMax, maxTokens } = facts;
  const tier = tierOf(lookup, caller);
  const organisation = caller.kind === 'key' ? caller.owner.organisation : null;
  const { target, model, surface, reranks } = facts;
  const routing: RoutingFacts = { target, organisation, tier: tier?.id ?? null, model, surface, reranks };
  // The route is worked out first and is the last step.
  const routeTrace = trace && new Trace();
  const placement = route(lookup, routing, routeTrace);
  if (tier === null) throw noPlan(caller, trace, routeTrace);
  trace?.add('plan', 'ok', { tier: tier.id }, planReads(caller, tier));
  const subject = subjectOf(caller);
  // Clients count before each turn: that takes nothing from requests, and has as much of its own.
  const counted = facts.onlyCounts ? `${countingPrefix}${subject}` : subject;
  const modelWeight = weightOf(lookup, facts.model, placement);
  const weight = weightWithin(modelWeight, tier.concurrency);
  const pooled = usesPool(lookup, facts, tier, placement);
  const uncounted = contextNeeded(facts) > (tier.contextTokens ?? Number.POSITIVE_INFINITY);
  const promptTokensLeast = uncounted ? facts.promptTokensLeast?.() : undefined;
  const limits: LimitFacts = {
    subject: counted,
    tier,
    weight,
    modelWeight,
    model: facts.model,
    contextTokens: contextNeeded({ promptTokensMax: promptTokensLeast ?? promptTokensMax, maxTokens }),
    answerTokens: answerNeeded(maxTokens),
    atLeast: promptTokensLeast !== undefined,
    allowance: pooled ? allowanceOf(facts, counters, nowMs) : { kind: 'none' },
    nextTier: () =>
      tier.rank === null || tier.monthlyTokens === null
        ? undefined
        : lookup.nextTier(tier.rank, tier.monthlyTokens, facts.model),
    visitors: caller.kind === 'anonymous' ? visitorFacts(lookup, counters, caller, tier, nowMs) : undefined,
  };
  checkLimits(limits, counters, nowMs, trace);
  if (routeTrace !== undefined) trace?.append(routeTrace);
  const total = limits.visitors && { total: limits.visitors.total };
  return { placement, tier, subject, counted, weight, uncounted, ...total };
}

/**
 * The decision with the body. Freshness is checked again, because the body may have taken long, and a suspended process
 * resumes with an old snapshot. Throws the refusals of plan and limits.
 */
export function decideRequest(
  lookup: Lookup,
  counters: Counters,
  facts: RequestFacts,
  { fenced, outboxFull, nowMs }: Conditions,
  trace?: Trace,
): Decision {
  if (fenced) refuse(trace, cannotTakeNow('fenced'));
  trace?.add('fresh', 'ok');
  if (outboxFull) refuse(trace, cannotTakeNow('outbox full'));
  trace?.add('usage', 'ok');
  return decide(lookup, counters, facts, nowMs, trace);
}
