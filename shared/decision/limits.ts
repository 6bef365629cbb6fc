/**
 * The plan limits (Errors 7 to 10, Limits 1 to 4): pure admission over counters that are handed in.
 * Order: context → allowance → requests per minute → concurrency. A refusal that waiting cannot cure is never hidden
 * behind one that it can, and a request counts only if it passes all four. Every message names the tier.
 */
import type { TierLimits } from '../snapshot/lookup.ts';
import { Refusal } from './refusal.ts';

/** A window of requests: a fixed minute whose phase is the organisation's own. */
export interface RateWindow {
  /** Requests admitted in it so far. */
  readonly used: number;
  readonly endsAtMs: number;
}

/** What the admission rule reads, however it is counted. */
export interface Counters {
  window(subject: string, nowMs: number): RateWindow;
  /** Sum of the weights of the requests in flight. */
  inFlight(subject: string): number;
  /** Tokens that completed pool requests took of this period's allowance. */
  poolTokens(organisation: string, anchor: string, nowMs: number): number;
  /** Completed turns of a visitor. */
  freeTurns(visitor: string): number;
}

export interface LimitFacts {
  /** Organisation or visitor that is counted. */
  readonly subject: string;
  readonly tier: TierLimits;
  /** Tokens the request needs: its prompt and what it asks for. */
  readonly contextTokens: number;
  /** The number is a bound from below. */
  readonly atLeast?: boolean;
  /** Draw on the allowance only where the pool would answer. */
  readonly allowance:
    | { readonly kind: 'none' }
    | { readonly kind: 'tokens'; readonly used: number }
    | { readonly kind: 'turns'; readonly used: number };
  readonly model: string;
  readonly weight: number;
  /** Name of the tier above, undefined for the top one. Only the refusal that names it calls this. */
  readonly nextTier: () => string | undefined;
}

export const windowMs = 60_000;

/** Context of a request: it is a property of the request, so it comes first. */
export function checkContext({
  tier,
  contextTokens,
  atLeast = false,
}: Pick<LimitFacts, 'tier' | 'contextTokens' | 'atLeast'>): void {
  if (tier.contextTokens === null || contextTokens <= tier.contextTokens) return;
  const needed = atLeast ? `at least ${contextTokens}` : contextTokens;
  throw new Refusal(
    'ContextWindowExceededError',
    `This request needs a context of ${needed} tokens; the ${tier.id} tier allows ${tier.contextTokens}.`,
  );
}

function checkAllowance(facts: LimitFacts): void {
  const { tier, allowance } = facts;
  if (allowance.kind === 'turns' && tier.freeTurns !== null && allowance.used >= tier.freeTurns) {
    throw new Refusal(
      'InferenceUpsellError',
      `The free turns of the ${tier.id} tier are used up. Sign in to continue.`,
    );
  }
  if (allowance.kind !== 'tokens' || tier.monthlyTokens === null || allowance.used < tier.monthlyTokens)
    return;
  const nextTier = facts.nextTier();
  const advice =
    nextTier === undefined ? 'Contact the service operator for more.' : `The ${nextTier} tier allows more.`;
  throw new Refusal(
    'InferenceUpsellError',
    `The monthly token allowance of the ${tier.id} tier is used up. ${advice}`,
  );
}

function checkRate({ tier, subject }: LimitFacts, counters: Counters, nowMs: number): void {
  if (tier.requestsPerMinute === null) return;
  const window = counters.window(subject, nowMs);
  if (window.used < tier.requestsPerMinute) return;
  const retryAfterSeconds = Math.min(60, Math.max(1, Math.ceil((window.endsAtMs - nowMs) / 1000)));
  throw new Refusal(
    'InferenceRateLimitedError',
    `The ${tier.id} tier carries ${tier.requestsPerMinute} requests a minute. Try again in ${retryAfterSeconds} seconds.`,
    { retryAfterSeconds },
  );
}

function checkConcurrency({ tier, subject, model, weight }: LimitFacts, counters: Counters): void {
  if (tier.concurrency === null || counters.inFlight(subject) + weight <= tier.concurrency) return;
  const counts = weight > 1 ? ` A request for ${model} counts as ${weight}.` : '';
  throw new Refusal(
    'InferenceConcurrencyLimitedError',
    `The ${tier.id} tier carries ${tier.concurrency} requests in flight.${counts} Try again once one has finished.`,
    { retryAfterSeconds: 1 },
  );
}

/** Throws the first refusal in the order above; returns where all four pass. */
export function admit(facts: LimitFacts, counters: Counters, nowMs: number): void {
  checkContext(facts);
  checkAllowance(facts);
  checkRate(facts, counters, nowMs);
  checkConcurrency(facts, counters);
}

/** Start of the subject's window: the minute's phase comes from its id, so that not all windows end at once. */
export function windowStartMs(subject: string, nowMs: number): number {
  let phase = 0;
  for (let i = 0; i < subject.length; i++) phase = (Math.imul(phase, 31) + subject.charCodeAt(i)) >>> 0;
  // Without mixing, ids that differ in a number at their end would share a second.
  phase = Math.imul(phase ^ (phase >>> 16), 0x85ebca6b);
  phase = Math.imul(phase ^ (phase >>> 13), 0xc2b2ae35);
  const offset = ((phase ^ (phase >>> 16)) >>> 0) % windowMs;
  return Math.floor((nowMs - offset) / windowMs) * windowMs + offset;
}
