/**
 * Has a node count the tokens of a prompt where the bounds do not decide whether it fits, and gives the answer its budget
 * (Limits 3; design: Context). Limits come first, so that the text of a request over its limits is not sent to a node. No
 * tokeniser runs on the event loop.
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
  asked: AskedRequest,
  placement: Placement,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined } = {},
): Measured | Promise<Measured> {
  const { decision, facts } = reservation;
  const { candidates } = placement;
  const bounds = computeBudget(decision.tier, asked.maxTokens, asked.promptBytes, asked.likelyTokens);
  // Engines refuse a request whose prompt and maxTokens exceed the window, and an estimate may be too low.
  const mustCount =
    decision.uncounted || facts.onlyCounts || candidates.some((route) => needsExactCount(bounds(route)));
  if (!mustCount) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };
  return countOnNode(gateway, reservation, { asked, candidates, bounds }, choose, record);
}

/** What an answer from a node may have, where its prompt has so many tokens. */
function computeBudget(
  { contextTokens }: TierLimits,
  maxTokens: number | undefined,
  promptBound: number,
  promptEstimate: number,
): Measured['budgetFor'] {
  return ({ windowTokens }) => ({
    asked: maxTokens,
    // A requested number was checked against the tier already; without one, the tier bounds the answer.
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
  { asked, owner }: { readonly asked: AskedRequest; readonly owner: string },
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
export function minOrNull(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
