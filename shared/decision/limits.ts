/**
 * Lists the limits of a plan in the order in which they are checked (Errors 7 to 10, Limits 1 to 4). Daily limits per network
 * and limits on all visitors protect paying callers from people who keep returning as new visitors. The checks are pure.
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

/** One-minute window in which a subject's requests are counted. The window's start depends on the subject's id. */
export interface RateWindow {
  /** Number of requests that count: those that this gateway admitted in the window, and those that other gateways hold. */
  readonly used: number;
  readonly endsAtMs: number;
}

export type LimitKind = 'requests' | 'concurrency';

/** Use of a limit, either as one gateway saw it or as the sum that all gateways published. */
export type LimitUsers = Omit<SeenLimit, 'room'> | { readonly used: number };

/** Counters of the limits that gateways share. */
export interface RateCounters {
  /** Returns the subject's current one-minute window. `limit` is the limit with which the caller will compare `used`. */
  window(subject: string, nowMs: number, limit: number | null): RateWindow;
  /** Weight in flight against which a new request of this `weight` is checked, including what other gateways hold. */
  inFlight(subject: string, limit: number | null, weight: number): number;
  /** Use of a limit at this and at other gateways, read in the same event loop turn as the total. Undefined if unknown. */
  users?(kind: LimitKind, subject: string, nowMs: number, limit: number): LimitUsers | undefined;
  /** Number of turns of a network's visitors on the day of `atMs`, completed or not. `network` is that day's hash. */
  networkTurns(network: string, atMs: number): number;
  /** Number of tokens that all visitors together used on the day of `atMs`. */
  visitorTokens(atMs: number): number;
}

export interface LimitFacts {
  /** Name of the organisation or visitor under which limits count the request. */
  readonly subject: string;
  readonly tier: TierLimits;
  /** Number of tokens that the request needs for its prompt and the requested completion. */
  readonly contextTokens: number;
  /** Number of tokens in `contextTokens` that are reserved for the completion. */
  readonly answerTokens?: number;
  /** Whether `contextTokens` is only a lower bound. */
  readonly atLeast?: boolean;
  /** Use of the allowance for tokens or turns. Its kind is `none` unless the pool would serve the request. */
  readonly allowance:
    | { readonly kind: 'none' }
    | { readonly kind: 'tokens'; readonly used: number }
    | { readonly kind: 'turns'; readonly used: number };
  readonly model: string;
  /** Weight of the request: the model's weight, capped at the tier's concurrency. */
  readonly weight: number;
  /** Weight of the model. It exceeds `weight` only if the tier's concurrency is smaller. */
  readonly modelWeight?: number | undefined;
  /** Returns the id of the next tier that allows more of this model, if any. Called only for a refusal's message. */
  readonly nextTier: () => string | undefined;
  /** Counts that the limits on visitors need. Set only if the caller is a visitor. */
  readonly visitors?: VisitorFacts | undefined;
}

export interface VisitorFacts {
  /** Number of turns that the visitor's network has taken today, or null if the network is unknown. */
  readonly networkTurns: number | null;
  /** Maximum number of turns per network and day. null means unlimited. */
  readonly networkTurnsMax: number | null;
  /** Number of tokens that all visitors together have used today. */
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

/** Checks that the request's context fits the tier. This check comes first because it depends only on the request. */
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
    `Your network has used its free turns of the ${tier.id} tier for today. Sign in to continue.`,
  );
}

function checkVisitorTokens({ tier, visitors }: LimitFacts): void {
  const { tokens = 0, total: { tokensPerDay } = unlimited } = visitors ?? {};
  if (tokensPerDay === null || tokens < tokensPerDay) return;
  throw new Refusal(
    'visitor tokens',
    `All visitors together have used the tokens of the ${tier.id} tier for today. Sign in to continue.`,
  );
}

/**
 * Weight with which a request counts against a limit. It is at most the limit, so that a heavy request can still fit, and at
 * least 1, so that a limit of 0 admits nothing.
 */
export function weightWithin(weight: number, limit: number | null): number {
  return limit === null ? weight : Math.max(1, Math.min(weight, limit));
}

/** Returns the end of a refusal's message, which states the request's weight and when to try again. */
function countsText({ model, weight: own, modelWeight = own }: LimitFacts, weight: number): string {
  if (modelWeight > weight)
    return ` A request for ${model} counts as ${modelWeight}, so it takes all of them. Try again once the requests in flight have finished.`;
  const counts = weight > 1 ? ` A request for ${model} counts as ${weight}.` : '';
  return `${counts} Try again once a request in flight has finished.`;
}

interface Limit {
  readonly step: PassedStep;
  /** Whether the limit applies to the request. If omitted, the limit applies to every request. */
  readonly holds?: (facts: LimitFacts) => boolean;
  /** Throws the refusal if the limit has no room for the request. */
  readonly check: (facts: LimitFacts, counters: RateCounters, nowMs: number) => void;
  /** Values that the check compares, to be shown in an explanation. */
  readonly compares: (facts: LimitFacts, counters: RateCounters, nowMs: number) => StepFacts;
  /** Facts to be shown in an explanation if the limit does not apply. */
  readonly otherwise?: StepFacts;
}

const totalOf = ({ visitors }: LimitFacts): VisitorTotals => visitors?.total ?? unlimited;

/** Callers whose requests are counted together: either one subject or all visitors. */
interface LimitScope {
  subject(facts: LimitFacts): string;
  limits(facts: LimitFacts): Pick<TierLimits, 'requestsPerMinute' | 'concurrency'>;
  /** Weight with which the request counts in this scope. For the scope of one subject, `facts.weight` is already capped. */
  weight(facts: LimitFacts, limit: number | null): number;
  /** Phrase that names the scope in messages. */
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
      // The spread comes last in this object, because Node 20 takes 100 times as long to add a new property after a spread.
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

/** Checks all limits, first those for which waiting does not help. Callers count only requests that pass all limits. */
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
