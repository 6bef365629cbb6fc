/**
 * A request's place among those of its organisation, and then the size of its prompt where the bounds do not tell it.
 * The place comes first, so that no request that its limits refuse has its text sent to a node for counting.
 */
import type { Route } from '../../shared/snapshot/lookup.ts';
import { judge } from './admission.ts';
import { type AnswerRoom, countAtOne, isTight, smallerOf } from './context.ts';
import type { Lease } from './counters.ts';
import { contextNeeded, type RequestFacts, type Verdict } from './decide.ts';
import type { Gateway } from './gateway.ts';
import { checkContext } from './limits.ts';
import { cannotTakeNow } from './refusal.ts';
import type { Placement } from './route.ts';
import type { Shaped } from './shape-operation.ts';

export interface Reservation {
  readonly verdict: Verdict;
  readonly lease: Lease;
}

/** Decides and counts in one turn of the event loop, so that no other request comes between the two. */
export function reserve(gateway: Gateway, facts: RequestFacts): Reservation {
  const nowMs = gateway.now();
  const conditions = { fenced: gateway.fenced(), outboxFull: gateway.meter.isFull, nowMs };
  const verdict = judge(gateway.lookup, gateway.counters, facts, conditions);
  return { verdict, lease: gateway.counters.take(verdict.subject, verdict.weight, nowMs) };
}

export interface Measured {
  /** Tokens of the prompt: counted, or estimated where no node can tell. */
  readonly tokens: number;
  /** The nodes that may answer; only the one that counted, where one did. */
  readonly candidates: readonly Route[];
  readonly room: (route: Route) => AnswerRoom;
}

/** Has the prompt counted where its bounds leave open whether it fits. Throws, without a trace in the limits, where it does not. */
export async function measure(
  gateway: Gateway,
  { verdict, lease }: Reservation,
  { inner, maxTokens, forwarded }: Shaped,
  { candidates: all }: Placement,
): Promise<Measured> {
  const { tier } = verdict;
  const roomFor =
    (promptBound: number, promptEstimate: number) =>
    (route: Route): AnswerRoom => ({
      asked: maxTokens,
      // What is asked for fits the tier already; an answer without a number may have what the tier leaves.
      windowTokens:
        maxTokens === undefined ? smallerOf(tier.contextTokens, route.windowTokens) : route.windowTokens,
      promptBound,
      promptEstimate,
    });
  const bounds = roomFor(inner.promptBytes, inner.likelyTokens);
  // Engines refuse a number that does not fit beside the prompt, and an estimate may be too low.
  const isOpen = verdict.uncounted || forwarded === undefined || all.some((route) => isTight(bounds(route)));
  if (!isOpen) return { tokens: inner.likelyTokens, candidates: all, room: bounds };
  const { tokens, candidates } = await countAtOne(gateway, all, inner);
  if (gateway.fenced()) throw cannotTakeNow('fenced');
  if (tokens === undefined) return { tokens: inner.likelyTokens, candidates, room: bounds };
  try {
    checkContext({ tier, contextTokens: contextNeeded({ promptTokens: tokens, maxTokens }) });
  } catch (refusal) {
    lease.cancel(tier.requestsPerMinute);
    throw refusal;
  }
  return { tokens, candidates, room: roomFor(tokens, tokens) };
}
