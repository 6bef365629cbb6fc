/**
 * Reserves capacity for a request in the limits of its organisation, then counts the tokens of its prompt where the bounds
 * do not decide whether it fits. Limits come first, so that the text of a request over its limits is not sent to a node.
 */

import { judge } from '../../shared/decision/admission.ts';
import { contextNeeded, type Decision, type RequestFacts } from '../../shared/decision/decide.ts';
import { checkContext } from '../../shared/decision/limits.ts';
import { cannotTakeNow } from '../../shared/decision/refusal.ts';
import type { Placement } from '../../shared/decision/route.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';
import type { Shaped } from '../shape/shape-operation.ts';
import type { Lease } from './counters.ts';
import type { Gateway } from './gateway.ts';
import { countAtOne, needsExactCount, smallerOf, type TokenBudget } from './token-budget.ts';

export interface Reservation {
  readonly decision: Decision;
  readonly lease: Lease;
}

/** Synchronous, so that no other request takes the capacity between check and reservation. */
export function reserve(gateway: Gateway, facts: RequestFacts): Reservation {
  const nowMs = gateway.now();
  const conditions = { fenced: gateway.fenced(), outboxFull: gateway.meter.isFull, nowMs };
  const decision = judge(gateway.lookup, gateway.counters, facts, conditions);
  return { decision, lease: gateway.counters.reserve(decision.subject, decision.weight, nowMs) };
}

export interface Measured {
  /** Tokens of the prompt: counted by a node, else estimated. */
  readonly tokens: number;
  /** The nodes that may serve the request; where a node counted the prompt, only that one. */
  readonly candidates: readonly Route[];
  readonly budgetFor: (route: Route) => TokenBudget;
}

/** Has a node count the prompt where the bounds do not decide. Throws where it does not fit, and gives the reservation back. */
export async function measure(
  gateway: Gateway,
  { decision, lease }: Reservation,
  { inner, maxTokens, forwarded }: Shaped,
  { candidates: all }: Placement,
): Promise<Measured> {
  const { tier } = decision;
  const budgetWith =
    (promptBound: number, promptEstimate: number) =>
    (route: Route): TokenBudget => ({
      asked: maxTokens,
      // A requested number was checked against the tier already; without one, the tier bounds the answer.
      windowTokens:
        maxTokens === undefined ? smallerOf(tier.contextTokens, route.windowTokens) : route.windowTokens,
      promptBound,
      promptEstimate,
    });
  const bounds = budgetWith(inner.promptBytes, inner.likelyTokens);
  // Engines refuse a request whose prompt and maxTokens exceed the window, and an estimate may be too low.
  const mustCount =
    decision.uncounted || forwarded === undefined || all.some((route) => needsExactCount(bounds(route)));
  if (!mustCount) return { tokens: inner.likelyTokens, candidates: all, budgetFor: bounds };
  const { tokens, candidates } = await countAtOne(gateway, all, inner);
  if (gateway.fenced()) throw cannotTakeNow('fenced');
  if (tokens === undefined) return { tokens: inner.likelyTokens, candidates, budgetFor: bounds };
  try {
    checkContext({ tier, contextTokens: contextNeeded({ promptTokens: tokens, maxTokens }) });
  } catch (refusal) {
    lease.cancel(tier.requestsPerMinute);
    throw refusal;
  }
  return { tokens, candidates, budgetFor: budgetWith(tokens, tokens) };
}
