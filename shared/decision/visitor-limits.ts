/**
 * What holds for visitors in addition to their own turns, requests and concurrency: the turns of their network in a day, and
 * what all visitors together may use, so that paying callers are not crowded out by visitors who are new again and again.
 * Pure, as decide.ts, which calls it.
 */
import type { SeenLimit } from '../../schemas/decisions.ts';
import { visitorsSubject } from '../../schemas/limits.ts';
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

function checkNetwork({ id }: TierLimits, { networkTurns, networkTurnsMax }: VisitorFacts): void {
  if (networkTurns === null || networkTurnsMax === null || networkTurns < networkTurnsMax) return;
  throw new Refusal(
    'network turns',
    `The free turns of the ${id} tier are used up for your network today. Sign in to continue.`,
  );
}

function checkTokens({ id }: TierLimits, { tokens, total: { tokensPerDay } }: VisitorFacts): void {
  if (tokensPerDay === null || tokens < tokensPerDay) return;
  throw new Refusal(
    'visitor tokens',
    `The tokens of the ${id} tier are used up for today, by all visitors together. Sign in to continue.`,
  );
}

/** What waiting does not cure before tomorrow. */
export function checkVisitorAllowances(
  { tier, visitors: facts }: { readonly tier: TierLimits; readonly visitors?: VisitorFacts | undefined },
  trace: Trace | undefined,
): void {
  if (facts === undefined) return;
  const { networkTurns, networkTurnsMax, tokens, total } = facts;
  if (networkTurns !== null)
    attempt(trace, 'network allowance', () => checkNetwork(tier, facts), {
      used: networkTurns,
      allowed: networkTurnsMax,
    });
  if (total.tokensPerDay !== null)
    attempt(trace, 'visitor tokens', () => checkTokens(tier, facts), {
      used: tokens,
      allowed: total.tokensPerDay,
    });
}

interface RateFacts {
  readonly tier: TierLimits;
  readonly model: string;
  readonly weight: number;
  readonly modelWeight?: number | undefined;
}

/**
 * What a request counts as: at most the whole limit, because one that counts as more would find no room, whatever ends.
 * At least one, so that a limit of none carries none.
 */
export function weightWithin(weight: number, limit: number | null): number {
  return limit === null ? weight : Math.max(1, Math.min(weight, limit));
}

/** What the refusal of a request in flight says of its weight, and when to try again. */
export function countsText({ model, weight, modelWeight = weight }: RateFacts): string {
  if (modelWeight > weight)
    return ` A request for ${model} counts as ${modelWeight}, so it takes all of them. Try again once they have finished.`;
  const counts = weight > 1 ? ` A request for ${model} counts as ${weight}.` : '';
  return `${counts} Try again once one has finished.`;
}

function checkRate({ tier: { id } }: RateFacts, limit: number, counters: RateCounters, nowMs: number): void {
  const window = counters.window(visitorsSubject, nowMs, limit);
  if (window.used < limit) return;
  const retryAfterSeconds = Math.min(60, Math.max(1, Math.ceil((window.endsAtMs - nowMs) / 1000)));
  throw new Refusal(
    'visitor requests',
    `The ${id} tier carries ${limit} requests a minute of all visitors together. Try again in ${retryAfterSeconds} seconds.`,
    {
      retryAfterSeconds,
      exhausted: { kind: 'rate', subject: visitorsSubject, limit, weight: 1 },
    },
  );
}

function checkConcurrency(facts: RateFacts, limit: number, counters: RateCounters): void {
  const { tier, weight } = facts;
  if (counters.inFlight(visitorsSubject, limit, weight) + weight <= limit) return;
  throw new Refusal(
    'visitor concurrency',
    `The ${tier.id} tier carries ${limit} requests in flight of all visitors together.${countsText(facts)}`,
    {
      retryAfterSeconds: 1,
      exhausted: { kind: 'concurrency', subject: visitorsSubject, limit, weight },
    },
  );
}

export function checkVisitorRates(
  facts: RateFacts,
  { total: { requestsPerMinute, concurrency } }: VisitorFacts,
  counters: RateCounters,
  nowMs: number,
  trace: Trace | undefined,
): void {
  if (requestsPerMinute !== null)
    attempt(
      trace,
      'visitor requests',
      () => checkRate(facts, requestsPerMinute, counters, nowMs),
      () => rateFacts(counters, visitorsSubject, requestsPerMinute, nowMs),
    );
  if (concurrency === null) return;
  const { weight: own, modelWeight = own } = facts;
  const weight = weightWithin(own, concurrency);
  attempt(
    trace,
    'visitor concurrency',
    () => checkConcurrency({ ...facts, weight, modelWeight }, concurrency, counters),
    () => concurrencyFacts(counters, visitorsSubject, concurrency, weight, nowMs),
  );
}

export function rateFacts(
  counters: RateCounters,
  subject: string,
  allowed: number | null,
  nowMs: number,
): StepFacts {
  if (allowed === null) return { allowed };
  const { used } = counters.window(subject, nowMs, allowed);
  return {
    ...counters.users?.('requests', subject, nowMs, allowed),
    room: Math.max(0, allowed - used),
    allowed,
  };
}

export function concurrencyFacts(
  counters: RateCounters,
  subject: string,
  allowed: number | null,
  weight: number,
  nowMs: number,
): StepFacts {
  if (allowed === null) return { weight, allowed };
  const used = counters.inFlight(subject, allowed, weight);
  const users = counters.users?.('concurrency', subject, nowMs, allowed);
  return { ...users, room: Math.max(0, allowed - used), weight, allowed };
}

function attempt(
  trace: Trace | undefined,
  step: PassedStep,
  check: () => void,
  facts: StepFacts | (() => StepFacts),
): void {
  if (trace === undefined) {
    check();
    return;
  }
  const tier = 'anonymous';
  trace.attempt(step, check, { tier, ...(typeof facts === 'function' ? facts() : facts) }, [
    { table: 'tier', id: tier },
  ]);
}
