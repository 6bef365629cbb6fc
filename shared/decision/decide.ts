/**
 * Decides a request whose body is known: freshness → plan → limits → route. It is pure: the snapshot's look-up, counters,
 * facts, time and gateway state are parameters. The route is computed first but reported last, so that it reveals nothing.
 * Refusals come in this order: context → allowance → requests per minute → concurrency → route. Every message about a limit
 * names the tier.
 */
import type { KeyOwner, Lookup, TierLimits, VisitorTotals } from '../snapshot/lookup.ts';
import { type Client, limitSubject, organisationPlan } from './authenticate.ts';
import { checkLimits, type LimitFacts, type RateCounters, visitorFacts, weightWithin } from './limits.ts';
import { cannotTakeNow, Refusal } from './refusal.ts';
import { type Placement, type RoutingFacts, refuseWithoutPlan, route, type Target } from './route.ts';
import type { Read } from './step.ts';
import { refuse, Trace } from './trace.ts';

/** State of the gateway on which decisions depend. */
export interface Conditions {
  /** Whether the snapshot is too old to prove that a key is valid. */
  readonly fenced: boolean;
  /** Whether the usage outbox is full, so that no more usage can be recorded. */
  readonly outboxFull: boolean;
  /** Wall-clock time of the decision in ms since 1970. */
  readonly nowMs: number;
}

/** Prefix for the limits on token-counting requests. Cannot clash with an organisation id, which never contains a colon. */
const countingPrefix = 'counting:';

export interface RequestFacts {
  readonly target: Target;
  readonly caller: Client;
  readonly model: string;
  readonly surface: RoutingFacts['surface'];
  /** Upper bound on the number of prompt tokens: the exact number if they were counted, otherwise the number of bytes. */
  readonly promptTokensMax: number;
  /** Computes a lower bound on the number of prompt tokens, for an upper bound that is too high. Undefined if counted. */
  readonly promptTokensLeast?: (() => number) | undefined;
  /** Requested number of completion tokens, or undefined if the request does not state one. */
  readonly maxTokens: number | undefined;
  /** Whether the request only counts tokens and generates no text. Limits count these requests separately from all others. */
  readonly onlyCounts?: boolean | undefined;
  /** Whether the request asks a model to rerank documents. */
  readonly reranks: boolean;
}

export interface Decision {
  /** The chosen place, or the router's refusal. The request counts against its limits even if the router refuses it. */
  readonly placement: Placement | Refusal;
  readonly tier: TierLimits;
  /** Id of the organisation or visitor that sent the request. */
  readonly subject: string;
  /** Name under which limits count the request. It differs from `subject` if the request only counts tokens. */
  readonly counted: string;
  readonly weight: number;
  /** Limits on all visitors together, counted under the name `visitorsSubject`. Set only if the caller is a visitor. */
  readonly total?: VisitorTotals | undefined;
  /** Whether the prompt may be too long for the tier, so that a node must count its tokens first. */
  readonly uncounted: boolean;
}

/** Counters that the admission rules read. The rules do not depend on how the counters are stored. */
export interface Counters extends RateCounters {
  /** Number of tokens of the organisation's allowance that completed pool requests have used in the current period. */
  poolTokens(organisation: string, anchor: string, nowMs: number): number;
  /** Number of the visitor's turns in the month of `atMs`, completed or in flight. `visitor` is that month's hash. */
  freeTurns(visitor: string, atMs: number): number;
}

export const windowMs = 60_000;

/** Start of the subject's one-minute window. It depends on the subject's id, so that windows do not all end at once. */
export function windowStartMs(subject: string, nowMs: number): number {
  let phase = 0;
  const first = subject.startsWith(countingPrefix) ? countingPrefix.length : 0;
  for (let i = first; i < subject.length; i++) phase = (Math.imul(phase, 31) + subject.charCodeAt(i)) >>> 0;
  // Without this mixing, the windows of ids that differ only in a trailing number would start in the same second.
  phase = Math.imul(phase ^ (phase >>> 16), 0x85ebca6b);
  phase = Math.imul(phase ^ (phase >>> 13), 0xc2b2ae35);
  const offset = ((phase ^ (phase >>> 16)) >>> 0) % windowMs;
  return Math.floor((nowMs - offset) / windowMs) * windowMs + offset;
}

/** Number of tokens in the prompt and the requested completion. A completion of unstated length counts as one token. */
export function contextNeeded(facts: Pick<RequestFacts, 'promptTokensMax' | 'maxTokens'>): number {
  return facts.promptTokensMax + answerNeeded(facts.maxTokens);
}

function answerNeeded(maxTokens: number | undefined): number {
  return maxTokens ?? 1;
}

/** Weight of the request, but 1 if it is refused and the pool lacks the model. This hides other organisations' models. */
function requestWeight(lookup: Lookup, model: string, placement: Placement | Refusal): number {
  return placement instanceof Refusal && !lookup.isPooled(model) ? 1 : lookup.weight(model);
}

function callerTier(lookup: Lookup, caller: RequestFacts['caller']): TierLimits | null {
  if (caller.kind === 'anonymous') return lookup.anonymousTier() ?? null;
  return organisationPlan(caller.owner);
}

/** Whether the pool would serve the request, because pool and plan include the model and no own node serves it. */
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

/** Snapshot rows that determine the caller's plan, for explanations to cite. */
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

/** Applies the plan and the limits, and throws their refusals. If none refuses, returns the route or its refusal. */
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
  const routeTrace = trace && new Trace();
  const placement = route(lookup, routing, routeTrace);
  if (tier === null) throw noPlan(caller, trace, routeTrace);
  trace?.add('plan', 'ok', { tier: tier.id }, planReads(caller, tier));
  const subject = limitSubject(caller);
  // Clients usually count tokens before each turn, so token counts have separate limits, as high as those on turns.
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

/** Decides a request whose body is known. Checks the snapshot's freshness again, because the body may arrive late. */
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
