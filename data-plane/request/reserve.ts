/**
 * Reserves capacity for a request in the limits of its organisation, then has a node count the tokens of its prompt where
 * the bounds do not decide whether it fits, and gives the answer its budget (Limits 3; design: Context). Limits come first,
 * so that the text of a request over its limits is not sent to a node. No tokeniser runs on the event loop.
 */
import { visitorsSubject } from '../../schemas/limits.ts';
import {
  type Counters,
  contextNeeded,
  type Decision,
  decideRequest,
  type RequestFacts,
} from '../../shared/decision/decide.ts';
import { checkContext, weightWithin } from '../../shared/decision/limits.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import type { Placement } from '../../shared/decision/route.ts';
import { ClientGone } from '../../shared/runtime/request-body.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Route, TierLimits, VisitorTotals } from '../../shared/snapshot/lookup.ts';
import type { Exchange } from '../http/exchange.ts';
import type { AskedRequest } from '../shape/asked.ts';
import type { Shaped } from '../surfaces/shape-operation.ts';
import type { NodeChooser } from '../upstream/affinity.ts';
import type { PromptCounter } from '../upstream/count-tokens.ts';
import type { NodeLoad } from '../upstream/load.ts';
import type { Lease } from './counters.ts';
import type { Gateway } from './gateway.ts';
import { SeenCounters } from './seen-counters.ts';

export interface Reservation {
  readonly decision: Decision;
  readonly lease: Lease;
}

/** Synchronous, so that no other request takes the capacity between check and reservation. */
function reserve(gateway: Gateway, facts: RequestFacts, counters: Counters): Reservation {
  const nowMs = gateway.now();
  if (counters instanceof SeenCounters) counters.atMs = nowMs;
  const conditions = { fenced: gateway.fenced(), outboxFull: gateway.meter.isFull, nowMs };
  const decision = decideRequest(gateway.lookup, counters, facts, conditions);
  const { counted, weight, tier, total } = decision;
  const lease = gateway.counters.reserve(counted, weight, nowMs, tier);
  if (total === undefined || facts.caller.kind !== 'anonymous') return { decision, lease };
  const ofAll = weightWithin(weight, total.concurrency);
  const all = gateway.counters.reserve(visitorsSubject, ofAll, nowMs, total);
  return { decision, lease: ofVisitor(lease, all, gateway.counters.reserveTurn(facts.caller), total) };
}

/** A visitor's own lease, that of all visitors together, and the turn. */
function ofVisitor(own: Lease, all: Lease, endTurn: () => void, { requestsPerMinute }: VisitorTotals): Lease {
  return {
    release: () => {
      own.release();
      all.release();
      endTurn();
    },
    cancel: (perMinute) => {
      endTurn();
      own.cancel(perMinute);
      // Each has the limit of its own subject.
      all.cancel(requestsPerMinute);
    },
  };
}

/** How long a request waits until the log has granted room that other gateways hold. */
const roomTimeoutMs = waits.gatewayRoom.ms;

/** Reserves at once; a request that finds no room waits where the other gateways may give up some. */
export function reserveOrWait(
  gateway: Gateway,
  facts: RequestFacts,
  exchange: Pick<Exchange, 'gone'>,
  counters: Counters = gateway.counters,
): Reservation | Promise<Reservation> {
  try {
    return reserve(gateway, facts, counters);
  } catch (error) {
    if (!(error instanceof Refusal) || error.exhausted === undefined) throw error;
    const untilMs = performance.now() + roomTimeoutMs;
    const { gone } = exchange;
    const waiting = gateway.counters.waitForRoom(error.exhausted, gateway.now(), untilMs, gone);
    if (waiting === undefined) throw error;
    return afterWait(gateway, facts, { counters, gone, untilMs, waiting });
  }
}

interface Wait {
  readonly counters: Counters;
  readonly gone: AbortSignal;
  readonly untilMs: number;
  readonly waiting: Promise<boolean>;
}

async function afterWait(
  gateway: Gateway,
  facts: RequestFacts,
  { counters, gone, untilMs, waiting: first }: Wait,
): Promise<Reservation> {
  let waiting: Promise<boolean> | undefined = first;
  for (;;) {
    await waiting;
    if (gone.aborted) throw new ClientGone('the client left while its request waited for a limit');
    try {
      return reserve(gateway, facts, counters);
    } catch (error) {
      if (!(error instanceof Refusal) || error.exhausted === undefined) throw error;
      waiting = gateway.counters.waitForRoom(error.exhausted, gateway.now(), untilMs, gone);
      if (waiting === undefined) throw error;
    }
  }
}

export interface Measured {
  /** Tokens of the prompt: counted by a node, else estimated. */
  readonly tokens: number;
  /** The nodes that may serve the request; where a node counted the prompt, only that one. */
  readonly candidates: readonly Route[];
  readonly budgetFor: (route: Route) => TokenBudget;
}

/**
 * Has a node count the prompt where the bounds do not decide; at once where they do. Throws where it does not fit, and
 * cancels the reservation.
 */
export function measure(
  gateway: Gateway,
  reservation: Reservation,
  shaped: Shaped,
  placement: Placement,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined } = {},
): Measured | Promise<Measured> {
  const { decision } = reservation;
  const { asked, form } = shaped;
  const { candidates } = placement;
  const bounds = budgetWith(decision.tier, asked.maxTokens, asked.promptBytes, asked.likelyTokens);
  // Engines refuse a request whose prompt and maxTokens exceed the window, and an estimate may be too low.
  const mustCount =
    decision.uncounted || form === undefined || candidates.some((route) => needsExactCount(bounds(route)));
  if (!mustCount) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };
  return countedBy(gateway, reservation, { asked, candidates, bounds }, choose, record);
}

/** What an answer from a node may have, where its prompt has so many tokens. */
function budgetWith(
  { contextTokens }: TierLimits,
  maxTokens: number | undefined,
  promptBound: number,
  promptEstimate: number,
): Measured['budgetFor'] {
  return ({ windowTokens }) => ({
    asked: maxTokens,
    // A requested number was checked against the tier already; without one, the tier bounds the answer.
    windowTokens: maxTokens === undefined ? smallerOf(contextTokens, windowTokens) : windowTokens,
    promptBound,
    promptEstimate,
  });
}

interface Uncounted {
  readonly asked: AskedRequest;
  readonly candidates: readonly Route[];
  readonly bounds: Measured['budgetFor'];
}

async function countedBy(
  gateway: Gateway,
  { decision: { tier }, lease }: Reservation,
  { asked, candidates: all, bounds }: Uncounted,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined },
): Promise<Measured> {
  const { maxTokens } = asked;
  const { tokens, candidates } = await countAtOne(gateway, all, asked, choose);
  if (tokens !== undefined) record.promptCounted = tokens;
  if (gateway.fenced()) throw cannotTakeNow('fenced');
  if (tokens === undefined) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };
  try {
    checkContext({ tier, contextTokens: contextNeeded({ promptTokens: tokens, maxTokens }) });
  } catch (refusal) {
    lease.cancel(tier.requestsPerMinute);
    throw refusal;
  }
  return { tokens, candidates, budgetFor: budgetWith(tier, maxTokens, tokens, tokens) };
}

/** Sent where neither request, tier nor node limits the answer. */
const answerTokensDefault = 4096;

export interface Counted {
  /** undefined: no node could count them. */
  readonly tokens: number | undefined;
  /** Those that may still be asked: only the one that has seen the text, where one has. */
  readonly candidates: readonly Route[];
}

/** Looking for a node that can count ends after this, however many candidates are left. */
const searchMs = waits.nodeSearch.ms;

/**
 * Has one of the candidates count the prompt. Another is asked only while no text has gone out, and the node
 * that got the text is the only one that may answer. The node counts as busy meanwhile.
 */
export async function countAtOne(
  { countTokens, load }: { readonly countTokens: PromptCounter; readonly load: NodeLoad },
  candidates: readonly Route[],
  asked: AskedRequest,
  choose: NodeChooser,
): Promise<Counted> {
  const untilMs = performance.now() + searchMs;
  // Token ids and inputs of embeddings are judged by their bounds.
  let left = asked.kind === 'chat' ? candidates : [];
  while (performance.now() < untilMs) {
    const route = choose(left);
    if (route === undefined) break;
    left = left.filter((candidate) => candidate !== route);
    let sent = false;
    let reached = true;
    load.begin(route.node);
    try {
      const tokens = await countTokens(route, asked, {
        onSent: () => {
          sent = true;
        },
        onUnreached: () => {
          reached = false;
        },
      });
      if (sent || tokens !== undefined) return { tokens, candidates: [route] };
    } finally {
      load.end(route.node, reached ? 'neutral' : 'unreached');
    }
  }
  return { tokens: undefined, candidates };
}

export interface TokenBudget {
  /** What the client asked for; undefined: as much as there is. */
  readonly asked: number | undefined;
  /** The window; null where it is unknown. */
  readonly windowTokens: number | null;
  /** Bound of the prompt from above, or its count. */
  readonly promptBound: number;
  readonly promptEstimate: number;
}

/** `max_tokens` for the node: always sent, because some engines run without end otherwise, and refuse one above their window. */
export function answerTokens({ asked, windowTokens, promptBound, promptEstimate }: TokenBudget): number {
  if (windowTokens === null) return asked ?? answerTokensDefault;
  const likely = Math.max(1, windowTokens - promptEstimate);
  if (asked !== undefined) return Math.min(asked, likely);
  // Nothing was asked, so no refusal may come of a prompt that has more tokens than was estimated.
  return Math.max(windowTokens - promptBound, Math.min(likely, Math.ceil(windowTokens / 4)));
}

/** Whether the bound may leave less room than there is, so that the prompt is to be counted before an answer is given its length. */
export function needsExactCount({ asked, windowTokens, promptBound }: TokenBudget): boolean {
  if (windowTokens === null) return false;
  return promptBound + (asked ?? Math.ceil(windowTokens / 4)) > windowTokens;
}

/** The smaller of two limits, where null means none. */
export function smallerOf(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
