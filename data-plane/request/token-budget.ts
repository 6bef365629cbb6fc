/**
 * Computes how many tokens an answer may have (specification, Limits 3). If an estimate cannot tell whether the prompt fits,
 * a node counts its tokens first. All limits have been checked by then, so a request over its limits never reaches a node.
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

export interface RequestMeasure {
  /** Number of tokens in the prompt: counted by a node, or else estimated. */
  readonly tokens: number;
  /** Nodes that may serve the request: only the node that has counted the prompt, if one has. */
  readonly candidates: readonly Route[];
  readonly budgetFor: (route: Route) => TokenBudget;
}

/** Makes a node count the prompt if estimates do not suffice. If it is too long, cancels the reservation and throws. */
export function measure(
  gateway: Gateway,
  reservation: Reservation,
  asked: AskedRequest,
  placement: Placement,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined } = {},
): RequestMeasure | Promise<RequestMeasure> {
  const { decision, facts } = reservation;
  const { candidates } = placement;
  const bounds = computeBudget(decision.tier, asked.maxTokens, asked.promptBytes, asked.likelyTokens);
  // Estimates may be too low, and engines refuse a request if the prompt and `max_tokens` do not fit into the window.
  const mustCount =
    decision.uncounted || facts.onlyCounts || candidates.some((route) => needsExactCount(bounds(route)));
  if (!mustCount) return { tokens: asked.likelyTokens, candidates, budgetFor: bounds };
  return countOnNode(gateway, reservation, { asked, candidates, bounds }, choose, record);
}

/** Returns a function that computes the token budget at a node. `promptBound` and `promptEstimate` are in tokens. */
function computeBudget(
  { contextTokens }: TierLimits,
  maxTokens: number | undefined,
  promptBound: number,
  promptEstimate: number,
): RequestMeasure['budgetFor'] {
  return ({ windowTokens }) => ({
    asked: maxTokens,
    // If the client requested a number, it was already checked against the tier. Otherwise, the tier's limit applies here.
    windowTokens: maxTokens === undefined ? minOrNull(contextTokens, windowTokens) : windowTokens,
    promptBound,
    promptEstimate,
  });
}

interface UncountedRequest {
  readonly asked: AskedRequest;
  readonly candidates: readonly Route[];
  readonly bounds: RequestMeasure['budgetFor'];
}

async function countOnNode(
  gateway: Gateway,
  { decision: { tier, subject }, lease }: Reservation,
  { asked, candidates: all, bounds }: UncountedRequest,
  choose: NodeChooser,
  record: { promptCounted?: number | undefined },
): Promise<RequestMeasure> {
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

/** Token limit that is sent to a node if neither the request, the tier nor the node has one. */
const answerTokensDefault = 4096;

export interface TokenCount {
  /** Number of tokens in the prompt, or undefined if no node could count them. */
  readonly tokens: number | undefined;
  /** Nodes that may still serve the request: only the node that has received the prompt, if one has. */
  readonly candidates: readonly Route[];
}

/** Maximum time in ms to find a node that can count the prompt, however many candidates remain. */
const searchMs = waits.nodeSearch.ms;

/** Makes a candidate count the prompt. Tries others only until one has received it, because that one must also answer. */
export async function countAtOne(
  { countTokens, load }: { readonly countTokens: PromptCounter; readonly load: NodeLoad },
  candidates: readonly Route[],
  { asked, owner }: { readonly asked: AskedRequest; readonly owner: string },
  choose: NodeChooser,
): Promise<TokenCount> {
  const untilMs = performance.now() + searchMs;
  // Only chats are counted, because embeddings and scores need no more than the bounds on the number of tokens.
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
  /** Number of answer tokens that the client requested, or undefined if it set no limit. */
  readonly asked: number | undefined;
  /** Size of the context window in tokens, or null if unknown. */
  readonly windowTokens: number | null;
  /** Number of tokens in the prompt: counted, or else an upper bound. */
  readonly promptBound: number;
  readonly promptEstimate: number;
}

/** Computes the `max_tokens` to send to a node. It is never left out, because without it some engines generate endlessly. */
export function answerTokens({ asked, windowTokens, promptBound, promptEstimate }: TokenBudget): number {
  if (windowTokens === null) return asked ?? answerTokensDefault;
  const likely = Math.max(1, windowTokens - promptEstimate);
  if (asked !== undefined) return Math.min(asked, likely);
  // Because the client has set no limit, its request must not be refused only because an estimate was too low.
  return Math.max(windowTokens - promptBound, Math.min(likely, Math.ceil(windowTokens / 4)));
}

/** Whether a node must count the prompt, because the answer might not fit if the prompt were as long as `promptBound`. */
export function needsExactCount({ asked, windowTokens, promptBound }: TokenBudget): boolean {
  if (windowTokens === null) return false;
  return promptBound + (asked ?? Math.ceil(windowTokens / 4)) > windowTokens;
}

/** Smaller of two limits. Null means unlimited. */
export function minOrNull(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
