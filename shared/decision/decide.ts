/**
 * Decides a request with its body: freshness → plan → limits → route. It is pure: the snapshot's answers, counters, facts,
 * time and gateway state are parameters. The route is computed first but reported last, so it reveals nothing. Refusals come
 * in this order: context → allowance → requests per minute → concurrency → route. Every message about a limit names the tier.
 */
import type { KeyOwner, Lookup, TierLimits, VisitorTotals } from '../snapshot/lookup.ts';
import { type Client, limitSubject, organisationPlan } from './authenticate.ts';
import { checkLimits, type LimitFacts, type RateCounters, visitorFacts, weightWithin } from './limits.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';
import { type Placement, type RoutingFacts, refuseWithoutPlan, route, type Target } from './route.ts';
import type { Read } from './step.ts';
import { refuse, Trace } from './trace.ts';

/** State of the gateway that a decision depends on. */
export interface Conditions {
  /** Whether the snapshot is too old to prove a key. */
  readonly fenced: boolean;
  /** Whether no more usage can be recorded. */
  readonly outboxFull: boolean;
  /** Wall clock in ms since 1970. */
  readonly nowMs: number;
}

/** Subject prefix of requests that only count tokens. Organisation ids cannot contain a colon. */
const countingPrefix = 'counting:';

export interface RequestFacts {
  readonly target: Target;
  readonly caller: Client;
  readonly model: string;
  readonly surface: RoutingFacts['surface'];
  /** Upper bound of the prompt's tokens. This is the exact number if it was counted, otherwise the number of bytes. */
  readonly promptTokensMax: number;
  /** Lower bound of the prompt's tokens. undefined if they were counted. Called only if the upper bound does not fit. */
  readonly promptTokensLeast?: (() => number) | undefined;
  /** Requested number of tokens. undefined if the request does not state one. */
  readonly maxTokens: number | undefined;
  /** Whether the request only counts tokens and generates nothing. Such requests have separate limits. */
  readonly onlyCounts?: boolean | undefined;
  /** Whether the request asks a model to rerank documents. */
  readonly reranks: boolean;
}

export interface Decision {
  /** The chosen place, or the router's refusal. The request counts against its limits in both cases. */
  readonly placement: Placement | Refusal;
  readonly tier: TierLimits;
  /** The calling organisation or visitor. */
  readonly subject: string;
  /** Subject under which the request is counted, per minute and in flight. */
  readonly counted: string;
  readonly weight: number;
  /** Limits on all visitors together, counted under the subject `visitorsSubject`. Only for a visitor. */
  readonly total?: VisitorTotals | undefined;
  /** Whether the prompt's bounds leave open if it fits the tier, so that a node must count it first. */
  readonly uncounted: boolean;
}

/** Counters that the admission rules read, independent of how they are kept. */
export interface Counters extends RateCounters {
  /** Tokens of this period's allowance that completed pool requests have used. */
  poolTokens(organisation: string, anchor: string, nowMs: number): number;
  /** Turns of a visitor in the month of `atMs`, completed or in flight. The subject is specific to that month. */
  freeTurns(visitor: string, atMs: number): number;
}

export const windowMs = 60_000;

/** Start of the subject's window. Its id determines the phase, so that windows do not all end at once. */
export function windowStartMs(subject: string, nowMs: number): number {
  let phase = 0;
  const first = subject.startsWith(countingPrefix) ? countingPrefix.length : 0;
  for (let i = first; i < subject.length; i++) phase = (Math.imul(phase, 31) + subject.charCodeAt(i)) >>> 0;
  // Without this mixing, ids that differ only in a trailing number would share a second.
  phase = Math.imul(phase ^ (phase >>> 16), 0x85ebca6b);
  phase = Math.imul(phase ^ (phase >>> 13), 0xc2b2ae35);
  const offset = ((phase ^ (phase >>> 16)) >>> 0) % windowMs;
  return Math.floor((nowMs - offset) / windowMs) * windowMs + offset;
}

/** Context that a request needs: its prompt, plus the requested tokens or one token if it does not state a number. */
export function contextNeeded(facts: Pick<RequestFacts, 'promptTokensMax' | 'maxTokens'>): number {
  return facts.promptTokensMax + answerNeeded(facts.maxTokens);
}

function answerNeeded(maxTokens: number | undefined): number {
  return maxTokens ?? 1;
}

/** Weight of the request. A refused model outside the pool weighs 1, so that other organisations' models stay hidden. */
function requestWeight(lookup: Lookup, model: string, placement: Placement | Refusal): number {
  return placement instanceof Refusal && !lookup.isPooled(model) ? 1 : lookup.weight(model);
}

function callerTier(lookup: Lookup, caller: RequestFacts['caller']): TierLimits | null {
  if (caller.kind === 'anonymous') return lookup.anonymousTier() ?? null;
  return organisationPlan(caller.owner);
}

/** Whether the pool would answer, so that the allowance is checked: pool and plan have the model, and no own node does. */
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

function readAllowance(facts: RequestFacts, counters: Counters, nowMs: number): LimitFacts['allowance'] {
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

/** Rows that a plan depends on. */
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

/** Applies plan and limits, and throws their refusals. Returns the routing result of a request that passed them. */
export function decide(
  lookup: Lookup,
  counters: Counters,
  facts: RequestFacts,
  nowMs: number,
  trace?: Trace,
): Decision {
  const { caller, promptTokensMax, maxTokens } = facts;
  const tier = callerTier(lookup, caller);
  const organisation = caller.kind === 'key' ? caller.owner.organisation : null;
  const { target, model, surface, reranks } = facts;
  const routing: RoutingFacts = { target, organisation, tier: tier?.id ?? null, model, surface, reranks };
  // The route is computed first and reported as the last step.
  const routeTrace = trace && new Trace();
  const placement = route(lookup, routing, routeTrace);
  if (tier === null) throw noPlan(caller, trace, routeTrace);
  trace?.add('plan', 'ok', { tier: tier.id }, planReads(caller, tier));
  const subject = limitSubject(caller);
  // Clients count tokens before each turn, so counting has separate limits of the same size.
  const counted = facts.onlyCounts ? `${countingPrefix}${subject}` : subject;
  const modelWeight = requestWeight(lookup, facts.model, placement);
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
    allowance: pooled ? readAllowance(facts, counters, nowMs) : { kind: 'none' },
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

/** Decides a request with its body. Freshness is checked again, because the body may have taken long to arrive. */
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
