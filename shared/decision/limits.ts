/**
 * Limits of a plan, one row each, in the order in which they are checked (Errors 7 to 10, Limits 1 to 4). Limits per network
 * and day and on all visitors protect paying callers from people who keep returning as new visitors. The checks are pure.
 */

import { countNoun } from '../../schemas/grouped.ts';
import type { SeenLimit } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { Lookup, TierLimits, VisitorTotals } from '../snapshot/lookup.ts';
import type { Client } from './authenticate.ts';
import { Refusal } from './refusal.ts';
import type { StepFacts } from './step.ts';
import type { PassedStep } from './steps.ts';
import type { Trace } from './trace.ts';

/** Rate window: a fixed minute whose phase depends on the subject. */
export interface RateWindow {
  /** Amount that counts against the limit: requests admitted in the window, plus what other gateways hold of it. */
  readonly used: number;
  readonly endsAtMs: number;
}

export type LimitKind = 'requests' | 'concurrency';

/** Use of a limit, as one gateway knew it or as the sum that all gateways published. */
export type LimitUsers = Omit<SeenLimit, 'room'> | { readonly used: number };

/** Counters of the shared limits. */
export interface RateCounters {
  /** Present window of a subject. `limit` is the limit that `used` will be compared with. */
  window(subject: string, nowMs: number, limit: number | null): RateWindow;
  /** Weight in flight, including what other gateways hold, as it counts when admitting another `weight`. */
  inFlight(subject: string, limit: number | null, weight: number): number;
  /** Breakdown of these numbers, read in the same turn of the event loop. undefined if unknown. */
  users?(kind: LimitKind, subject: string, nowMs: number, limit: number): LimitUsers | undefined;
  /** Turns of a network's visitors on the day of `atMs`, in any state. The network's hash is specific to that day. */
  networkTurns(network: string, atMs: number): number;
  /** Tokens that all visitors together used on the day of `atMs`. */
  visitorTokens(atMs: number): number;
}

export interface LimitFacts {
  /** Organisation or visitor under which the request is counted. */
  readonly subject: string;
  readonly tier: TierLimits;
  /** Tokens that the request needs: prompt plus requested answer. */
  readonly contextTokens: number;
  /** Part of `contextTokens` for the answer. */
  readonly answerTokens?: number;
  /** Whether `contextTokens` is a lower bound. */
  readonly atLeast?: boolean;
  /** Use of the allowance. Other than `none` only if the pool would answer. */
  readonly allowance:
    | { readonly kind: 'none' }
    | { readonly kind: 'tokens'; readonly used: number }
    | { readonly kind: 'turns'; readonly used: number };
  readonly model: string;
  /** Weight of the request: the model's weight, but at most the tier's concurrency. */
  readonly weight: number;
  /** The model's own weight. Exceeds `weight` only if the tier's concurrency is smaller. */
  readonly modelWeight?: number | undefined;
  /** Id of the next tier that allows more of this model; undefined if none. Called only for a refusal that names it. */
  readonly nextTier: () => string | undefined;
  /** Additional counts for a visitor. */
  readonly visitors?: VisitorFacts | undefined;
}

export interface VisitorFacts {
  /** Turns of the network today. null if the network is unknown. */
  readonly networkTurns: number | null;
  /** null means unlimited. */
  readonly networkTurnsMax: number | null;
  /** Tokens of all visitors today. */
  readonly tokens: number;
  readonly total: VisitorTotals;
}

const unlimited: VisitorTotals = {
  networkFactor: 1,
  requestsPerMinute: null,
  concurrency: null,
  tokensPerDay: null,
};

export function visitorFacts(
  lookup: Lookup,
  counters: RateCounters,
  { network, admittedMs }: Extract<Client, { readonly kind: 'anonymous' }>,
  { freeTurns }: TierLimits,
  nowMs: number,
): VisitorFacts {
  const total = lookup.visitorTotals() ?? unlimited;
  const atMs = admittedMs ?? nowMs;
  return {
    networkTurns: network === undefined ? null : counters.networkTurns(network, atMs),
    networkTurnsMax: freeTurns === null ? null : freeTurns * total.networkFactor,
    tokens: total.tokensPerDay === null ? 0 : counters.visitorTokens(atMs),
    total,
  };
}

/** Checks the request's context. It comes first, because the context depends only on the request. */
export function checkContext({
  tier,
  contextTokens,
  atLeast = false,
}: Pick<LimitFacts, 'tier' | 'contextTokens' | 'atLeast'>): void {
  if (tier.contextTokens === null || contextTokens <= tier.contextTokens) return;
  const needed = `${atLeast ? 'at least ' : ''}${countNoun(contextTokens, 'token')}`;
  throw new Refusal(
    'context',
    `This request needs a context of ${needed}; the ${tier.id} tier allows ${tier.contextTokens}.`,
  );
}

function checkAllowance({ tier, allowance, nextTier }: LimitFacts): void {
  if (allowance.kind === 'turns' && tier.freeTurns !== null && allowance.used >= tier.freeTurns) {
    throw new Refusal('allowance', `The free turns of the ${tier.id} tier are used up. Sign in to continue.`);
  }
  if (allowance.kind !== 'tokens' || tier.monthlyTokens === null || allowance.used < tier.monthlyTokens)
    return;
  const next = nextTier();
  const advice = next === undefined ? 'Contact the service operator for more.' : `The next tier is ${next}.`;
  throw new Refusal('allowance', `The monthly token allowance of the ${tier.id} tier is used up. ${advice}`);
}

function checkNetwork({ tier, visitors }: LimitFacts): void {
  const { networkTurns = null, networkTurnsMax = null } = visitors ?? {};
  if (networkTurns === null || networkTurnsMax === null || networkTurns < networkTurnsMax) return;
  throw new Refusal(
    'network turns',
    `Your network has used today’s free turns of the ${tier.id} tier. Sign in to continue.`,
  );
}

function checkVisitorTokens({ tier, visitors }: LimitFacts): void {
  const { tokens = 0, total: { tokensPerDay } = unlimited } = visitors ?? {};
  if (tokensPerDay === null || tokens < tokensPerDay) return;
  throw new Refusal(
    'visitor tokens',
    `All visitors together have used today’s tokens of the ${tier.id} tier. Sign in to continue.`,
  );
}

/** Weight that counts against a limit: at most the limit, so that it can fit, and at least 1, so that 0 admits nothing. */
export function weightWithin(weight: number, limit: number | null): number {
  return limit === null ? weight : Math.max(1, Math.min(weight, limit));
}

/** Text that states the weight of a refused request and when to retry. */
function countsText({ model, weight: own, modelWeight = own }: LimitFacts, weight: number): string {
  if (modelWeight > weight)
    return ` A request for ${model} counts as ${modelWeight}, so it takes all of them. Try again once the requests in flight have finished.`;
  const counts = weight > 1 ? ` A request for ${model} counts as ${weight}.` : '';
  return `${counts} Try again once a request in flight has finished.`;
}

interface Limit {
  readonly step: PassedStep;
  /** Whether the limit applies to the request. If left out, it applies to every request. */
  readonly holds?: (facts: LimitFacts) => boolean;
  /** Throws the refusal if the limit has no room. */
  readonly check: (facts: LimitFacts, counters: RateCounters, nowMs: number) => void;
  /** Compared values, for an explanation. */
  readonly compares: (facts: LimitFacts, counters: RateCounters, nowMs: number) => StepFacts;
  /** Facts for an explanation if the limit does not apply. */
  readonly otherwise?: StepFacts;
}

const totalOf = ({ visitors }: LimitFacts): VisitorTotals => visitors?.total ?? unlimited;

/** Subject whose rate and concurrency are checked: the caller, or all visitors together. */
interface LimitScope {
  subject(facts: LimitFacts): string;
  limits(facts: LimitFacts): Pick<TierLimits, 'requestsPerMinute' | 'concurrency'>;
  /** Weight that counts here. The caller's own weight is already capped by its limit. */
  weight(facts: LimitFacts, limit: number | null): number;
  /** Words that name the subject in messages. */
  readonly words: string;
}
const own: LimitScope = {
  subject: ({ subject }) => subject,
  limits: ({ tier }) => tier,
  weight: ({ weight }) => weight,
  words: '',
};
const all: LimitScope = {
  subject: () => visitorsSubject,
  limits: totalOf,
  weight: ({ weight }, limit) => weightWithin(weight, limit),
  words: ' for all visitors together',
};

function rate(step: 'requests' | 'visitor requests', whose: LimitScope): Limit {
  return {
    step,
    holds: (facts) => whose === own || whose.limits(facts).requestsPerMinute !== null,
    check: (facts, counters, nowMs) => {
      const limit = whose.limits(facts).requestsPerMinute;
      if (limit === null) return;
      const subject = whose.subject(facts);
      const window = counters.window(subject, nowMs, limit);
      if (window.used < limit) return;
      const retryAfterSeconds = Math.min(60, Math.max(1, Math.ceil((window.endsAtMs - nowMs) / 1000)));
      throw new Refusal(
        step,
        `The ${facts.tier.id} tier allows ${countNoun(limit, 'request')} a minute${whose.words}. Try again in ${countNoun(retryAfterSeconds, 'second')}.`,
        { retryAfterSeconds, exhausted: { kind: 'rate', subject, limit, weight: 1 } },
      );
    },
    compares: (facts, counters, nowMs) => {
      const allowed = whose.limits(facts).requestsPerMinute;
      if (allowed === null) return { allowed };
      const subject = whose.subject(facts);
      const { used } = counters.window(subject, nowMs, allowed);
      const users = counters.users?.('requests', subject, nowMs, allowed);
      // The spread comes last, because Node 20 takes 100 times as long to add a new property after a spread.
      return { room: Math.max(0, allowed - used), allowed, ...users };
    },
  };
}

function concurrency(step: 'concurrency' | 'visitor concurrency', whose: LimitScope): Limit {
  return {
    step,
    holds: (facts) => whose === own || whose.limits(facts).concurrency !== null,
    check: (facts, counters) => {
      const limit = whose.limits(facts).concurrency;
      if (limit === null) return;
      const subject = whose.subject(facts);
      const weight = whose.weight(facts, limit);
      if (counters.inFlight(subject, limit, weight) + weight <= limit) return;
      throw new Refusal(
        step,
        `The ${facts.tier.id} tier allows ${countNoun(limit, 'request')} in flight${whose.words}.${countsText(facts, weight)}`,
        { retryAfterSeconds: 1, exhausted: { kind: 'concurrency', subject, limit, weight } },
      );
    },
    compares: (facts, counters, nowMs) => {
      const allowed = whose.limits(facts).concurrency;
      const weight = whose.weight(facts, allowed);
      if (allowed === null) return { weight, allowed };
      const subject = whose.subject(facts);
      const used = counters.inFlight(subject, allowed, weight);
      const users = counters.users?.('concurrency', subject, nowMs, allowed);
      return { room: Math.max(0, allowed - used), weight, allowed, ...users };
    },
  };
}

const limits: readonly Limit[] = [
  {
    step: 'context',
    check: checkContext,
    compares: ({ contextTokens, answerTokens = 0, tier, atLeast = false }) => ({
      needed: contextTokens,
      prompt: contextTokens - answerTokens,
      answer: answerTokens,
      atLeast,
      allowed: tier.contextTokens,
    }),
  },
  {
    step: 'allowance',
    holds: ({ allowance }) => allowance.kind !== 'none',
    otherwise: { fromPool: false },
    check: checkAllowance,
    compares: ({ allowance, tier }) => ({
      kind: allowance.kind,
      used: allowance.kind === 'none' ? null : allowance.used,
      allowed: allowance.kind === 'turns' ? tier.freeTurns : tier.monthlyTokens,
    }),
  },
  {
    step: 'network allowance',
    holds: ({ allowance, visitors }) =>
      allowance.kind === 'turns' && visitors !== undefined && visitors.networkTurns !== null,
    check: checkNetwork,
    compares: ({ visitors }) => ({ used: visitors?.networkTurns, allowed: visitors?.networkTurnsMax }),
  },
  {
    step: 'visitor tokens',
    holds: (facts) => facts.allowance.kind === 'turns' && totalOf(facts).tokensPerDay !== null,
    check: checkVisitorTokens,
    compares: (facts) => ({ used: facts.visitors?.tokens, allowed: totalOf(facts).tokensPerDay }),
  },
  rate('requests', own),
  concurrency('concurrency', own),
  rate('visitor requests', all),
  concurrency('visitor concurrency', all),
];

/** Checks all limits, first those that waiting cannot cure. A request counts against limits only if it passes all. */
export function checkLimits(facts: LimitFacts, counters: RateCounters, nowMs: number, trace?: Trace): void {
  const { id } = facts.tier;
  for (const { step, holds, check, compares, otherwise } of limits) {
    const isAsked = holds === undefined || holds(facts);
    if (trace === undefined) {
      if (isAsked) check(facts, counters, nowMs);
    } else if (isAsked) {
      const compared = { tier: id, ...compares(facts, counters, nowMs) };
      trace.attempt(step, () => check(facts, counters, nowMs), compared, [{ table: 'tier', id }]);
    } else if (otherwise !== undefined) trace.add(step, 'skipped', otherwise);
  }
}
