/**
 * The limits of a plan, a row each, in the order in which they are asked (Errors 7 to 10, Limits 1 to 4). Visitors have further
 * ones in addition to their own turns, requests and concurrency: the turns of their network in a day, and what all visitors together
 * may use, so that paying callers are not crowded out by visitors who are new again and again. Pure, as decide.ts.
 */

import { counted } from '../../schemas/grouped.ts';
import type { SeenLimit } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { Lookup, TierLimits, VisitorTotals } from '../snapshot/lookup.ts';
import type { Client } from './authenticate.ts';
import { Refusal } from './refusal.ts';
import type { StepFacts } from './step.ts';
import type { PassedStep } from './steps.ts';
import type { Trace } from './trace.ts';

/** A window of requests: a fixed minute whose phase is the subject's own. */
export interface RateWindow {
  /** What counts against the limit: requests admitted in it so far, and what other gateways hold of it. */
  readonly used: number;
  readonly endsAtMs: number;
}

export type LimitKind = 'requests' | 'concurrency';

/** Who used a limit: what one gateway knew, or the sum that all published. */
export type LimitUsers = Omit<SeenLimit, 'room'> | { readonly used: number };

/** What limits that many share are compared with. */
export interface RateCounters {
  /** `limit`: what `used` is compared with. */
  window(subject: string, nowMs: number, limit: number | null): RateWindow;
  /** Sum of the weights of the requests in flight, and what other gateways hold for theirs, as it counts for a further weight. */
  inFlight(subject: string, limit: number | null, weight: number): number;
  /** What explains the numbers above, read in the same turn; undefined where it is not known. */
  users?(kind: LimitKind, subject: string, nowMs: number, limit: number): LimitUsers | undefined;
  /** Turns that the visitors of a network completed or stopped on the day of a moment, of which its hash is, or have in flight. */
  networkTurns(network: string, atMs: number): number;
  /** Tokens that all visitors together used on the day of a moment. */
  visitorTokens(atMs: number): number;
}

export interface LimitFacts {
  /** Organisation or visitor that is counted. */
  readonly subject: string;
  readonly tier: TierLimits;
  /** Tokens the request needs: its prompt and what it asks for. */
  readonly contextTokens: number;
  /** Of these, what is for the answer. */
  readonly answerTokens?: number;
  /** The number is a bound from below. */
  readonly atLeast?: boolean;
  /** Draw on the allowance only where the pool would answer. */
  readonly allowance:
    | { readonly kind: 'none' }
    | { readonly kind: 'tokens'; readonly used: number }
    | { readonly kind: 'turns'; readonly used: number };
  readonly model: string;
  /** What the request counts as: the model's weight, at most all that the tier carries. */
  readonly weight: number;
  /** Of the model; above `weight` only where the tier carries less. */
  readonly modelWeight?: number | undefined;
  /** Id of the next tier that allows more of this model; undefined if there is none. Called only for the refusal that names the tier. */
  readonly nextTier: () => string | undefined;
  /** Of a visitor: what counts in addition to the own turns. */
  readonly visitors?: VisitorFacts | undefined;
}

export interface VisitorFacts {
  /** Turns of the network today; null where no network is known. */
  readonly networkTurns: number | null;
  /** null: unlimited. */
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

/** Context of a request: it is a property of the request, so it comes first. */
export function checkContext({
  tier,
  contextTokens,
  atLeast = false,
}: Pick<LimitFacts, 'tier' | 'contextTokens' | 'atLeast'>): void {
  if (tier.contextTokens === null || contextTokens <= tier.contextTokens) return;
  const needed = `${atLeast ? 'at least ' : ''}${counted(contextTokens, 'token')}`;
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
    `The free turns of the ${tier.id} tier are used up for your network today. Sign in to continue.`,
  );
}

function checkVisitorTokens({ tier, visitors }: LimitFacts): void {
  const { tokens = 0, total: { tokensPerDay } = unlimited } = visitors ?? {};
  if (tokensPerDay === null || tokens < tokensPerDay) return;
  throw new Refusal(
    'visitor tokens',
    `The tokens of the ${tier.id} tier are used up for today, by all visitors together. Sign in to continue.`,
  );
}

/**
 * What a request counts as: at most the whole limit, because one that counts as more would find no room, whatever ends.
 * At least one, so that a limit of none carries none.
 */
export function weightWithin(weight: number, limit: number | null): number {
  return limit === null ? weight : Math.max(1, Math.min(weight, limit));
}

/** What the refusal of a request in flight says of its weight, and when to try again. */
function countsText({ model, weight: own, modelWeight = own }: LimitFacts, weight: number): string {
  if (modelWeight > weight)
    return ` A request for ${model} counts as ${modelWeight}, so it takes all of them. Try again once they have finished.`;
  const counts = weight > 1 ? ` A request for ${model} counts as ${weight}.` : '';
  return `${counts} Try again once one has finished.`;
}

interface Limit {
  readonly step: PassedStep;
  /** Of this request? Left out: of every one. */
  readonly holds?: (facts: LimitFacts) => boolean;
  /** Throws the refusal. */
  readonly check: (facts: LimitFacts, counters: RateCounters, nowMs: number) => void;
  /** What it compares, for an explanation. */
  readonly compares: (facts: LimitFacts, counters: RateCounters, nowMs: number) => StepFacts;
  /** What an explanation has where it does not hold. */
  readonly otherwise?: StepFacts;
}

const totalOf = ({ visitors }: LimitFacts): VisitorTotals => visitors?.total ?? unlimited;

/** Whose minute and number in flight: the caller's, or those of all visitors together. */
interface Whose {
  subject(facts: LimitFacts): string;
  limits(facts: LimitFacts): Pick<TierLimits, 'requestsPerMinute' | 'concurrency'>;
  /** The caller's own is within its limit already. */
  weight(facts: LimitFacts, limit: number | null): number;
  /** In a message. */
  readonly words: string;
}
const own: Whose = {
  subject: ({ subject }) => subject,
  limits: ({ tier }) => tier,
  weight: ({ weight }) => weight,
  words: '',
};
const all: Whose = {
  subject: () => visitorsSubject,
  limits: totalOf,
  weight: ({ weight }, limit) => weightWithin(weight, limit),
  words: ' of all visitors together',
};

function rate(step: 'requests' | 'visitor requests', whose: Whose): Limit {
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
        `The ${facts.tier.id} tier carries ${counted(limit, 'request')} a minute${whose.words}. Try again in ${counted(retryAfterSeconds, 'second')}.`,
        { retryAfterSeconds, exhausted: { kind: 'rate', subject, limit, weight: 1 } },
      );
    },
    compares: (facts, counters, nowMs) => {
      const allowed = whose.limits(facts).requestsPerMinute;
      if (allowed === null) return { allowed };
      const subject = whose.subject(facts);
      const { used } = counters.window(subject, nowMs, allowed);
      const users = counters.users?.('requests', subject, nowMs, allowed);
      // Spread last: Node 20 takes 100 times as long for a new name behind a spread.
      return { room: Math.max(0, allowed - used), allowed, ...users };
    },
  };
}

function concurrency(step: 'concurrency' | 'visitor concurrency', whose: Whose): Limit {
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
        `The ${facts.tier.id} tier carries ${counted(limit, 'request')} in flight${whose.words}.${countsText(facts, weight)}`,
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

/** A refusal that waiting cannot cure is never hidden behind one that it can, and a request counts only if it passes all. */
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
