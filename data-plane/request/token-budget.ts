/**
 * Lets a node count a prompt's tokens if estimates cannot decide whether it fits, and computes the answer's token budget
 * (Limits 3; design: Context). Limits come first, so that a text over its limits never reaches a node.
 */
import { memorySharer } from '../../shared/decision/authenticate.ts';
import { contextNeeded } from '../../shared/decision/decide.ts';
import { checkContext } from '../../shared/decision/limits.ts';
import { cannotTakeNow } from '../../shared/decision/refusal.ts';
import type { Placement } from '../../shared/decision/route.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Route, TierLimits } from '../../shared/snapshot/lookup.ts';
import type { NodeChooser } from '../nodes/affinity.ts';
import type { PromptCounter } from '../nodes/count-tokens.ts';
import type { NodeLoad } from '../nodes/load.ts';
import type { AskedRequest } from '../surfaces/common/asked.ts';
import type { Gateway } from './gateway.ts';
import type { Reservation } from './reserve.ts';

export interface Measured {
  /** Prompt tokens, counted by a node or otherwise estimated. */
  readonly tokens: number;
  /** Nodes that may serve the request. If a node counted the prompt, it is the only one. */
  readonly candidates: readonly Route[];
  readonly budgetFor: (route: Route) => TokenBudget;
}

/** Lets a node count if the bounds cannot decide. If the prompt does not fit, cancels the reservation and throws. */
export function measure(
  gateway: Gateway,
  reservation: Reservation,
  asked: AskedRequest,
  placement: Placement,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined } = {},
): Measured | Promise<Measured> {
  const { decision, facts } = reservation;
  const { candidates } = placement;
  const bounds = computeBudget(decision.tier, asked.maxTokens, asked.promptBytes, asked.likelyTokens);
  // Engines refuse a request whose prompt and maxTokens together exceed the window, and an estimate may be too low.
  const mustCount =
    decision.uncounted || facts.onlyCounts || candidates.some((route) => needsExactCount(bounds(route)));
  if (!mustCount) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };
  return countOnNode(gateway, reservation, { asked, candidates, bounds }, choose, record);
}

/** Returns a function that computes the budget of an answer from a node, given the size of the prompt. */
function computeBudget(
  { contextTokens }: TierLimits,
  maxTokens: number | undefined,
  promptBound: number,
  promptEstimate: number,
): Measured['budgetFor'] {
  return ({ windowTokens }) => ({
    asked: maxTokens,
    // A requested number was already checked against the tier. Without one, the tier limits the answer.
    windowTokens: maxTokens === undefined ? minOrNull(contextTokens, windowTokens) : windowTokens,
    promptBound,
    promptEstimate,
  });
}

interface Uncounted {
  readonly asked: AskedRequest;
  readonly candidates: readonly Route[];
  readonly bounds: Measured['budgetFor'];
}

async function countOnNode(
  gateway: Gateway,
  { decision: { tier, subject }, lease }: Reservation,
  { asked, candidates: all, bounds }: Uncounted,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined },
): Promise<Measured> {
  const { maxTokens } = asked;
  const { tokens, candidates } = await countAtOne(
    gateway,
    all,
    { asked, owner: memorySharer(subject) },
    choose,
  );
  if (tokens !== undefined) record.promptCounted = tokens;
  if (gateway.fenced()) throw cannotTakeNow('fenced');
  if (tokens === undefined) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };
  try {
    checkContext({ tier, contextTokens: contextNeeded({ promptTokensMax: tokens, maxTokens }) });
  } catch (refusal) {
    lease.cancel(tier.requestsPerMinute);
    throw refusal;
  }
  return { tokens, candidates, budgetFor: computeBudget(tier, maxTokens, tokens, tokens) };
}

/** Sent if neither the request, the tier nor the node limits the answer. */
const answerTokensDefault = 4096;

export interface Counted {
  /** Undefined if no node could count the tokens. */
  readonly tokens: number | undefined;
  /** Nodes that may still serve the request. If one has received the text, it is the only one. */
  readonly candidates: readonly Route[];
}

/** Longest search for a node that can count, in ms, however many candidates are left. */
const searchMs = waits.nodeSearch.ms;

/**
 * Lets one candidate count the prompt. It counts as busy meanwhile. Another one is tried only while no text has been sent,
 * because only the node that received the text may answer.
 */
export async function countAtOne(
  { countTokens, load }: { readonly countTokens: PromptCounter; readonly load: NodeLoad },
  candidates: readonly Route[],
  { asked, owner }: { readonly asked: AskedRequest; readonly owner: string },
  choose: NodeChooser,
): Promise<Counted> {
  const untilMs = performance.now() + searchMs;
  // Embedding inputs and token ids are judged by their bounds alone.
  let left = asked.kind === 'chat' ? candidates : [];
  while (performance.now() < untilMs) {
    const route = choose(left);
    if (route === undefined) break;
    left = left.filter((candidate) => candidate !== route);
    let sent = false;
    let reached = true;
    load.begin(route.node, false);
    try {
      const tokens = await countTokens(route, asked, owner, {
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
  /** Answer tokens that the client requested; undefined if it set no limit. */
  readonly asked: number | undefined;
  /** The context window in tokens; null if unknown. */
  readonly windowTokens: number | null;
  /** Upper bound or exact count of the prompt's tokens. */
  readonly promptBound: number;
  readonly promptEstimate: number;
}

/** Computes `max_tokens` within the window. Always sent, because some engines otherwise generate without end. */
export function answerTokens({ asked, windowTokens, promptBound, promptEstimate }: TokenBudget): number {
  if (windowTokens === null) return asked ?? answerTokensDefault;
  const likely = Math.max(1, windowTokens - promptEstimate);
  if (asked !== undefined) return Math.min(asked, likely);
  // The client set no limit, so an estimate that was too low must not cause a refusal.
  return Math.max(windowTokens - promptBound, Math.min(likely, Math.ceil(windowTokens / 4)));
}

/** Whether the upper bound may leave too little room for the answer, so that the prompt must be counted exactly first. */
export function needsExactCount({ asked, windowTokens, promptBound }: TokenBudget): boolean {
  if (windowTokens === null) return false;
  return promptBound + (asked ?? Math.ceil(windowTokens / 4)) > windowTokens;
}

/** The smaller of two limits; null means unlimited. */
export function minOrNull(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
