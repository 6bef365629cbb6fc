/**
 * How many tokens a request needs, and how many its answer may have (Limits 3; design: Context).
 * Bytes bound tokens from above, so most requests pass uncounted; the rest ask the counter of the node that will answer.
 * No tokeniser runs on the event loop.
 */
import type { Route } from '../../shared/snapshot/lookup.ts';
import type { AnyChat, AnyEmbeddings } from '../shape/outline.ts';
import type { PromptCounter } from '../upstream/count-tokens.ts';
import type { NodeLoad } from '../upstream/load.ts';

/** Sent where neither request, tier nor node says how long an answer may be. */
const answerTokensDefault = 4096;

type Shaped = AnyChat | AnyEmbeddings;

export interface Counted {
  /** undefined: no node could count them. */
  readonly tokens: number | undefined;
  /** Those that may still be asked: only the one that has seen the text, where one has. */
  readonly candidates: readonly Route[];
}

/** Looking for a node that can count ends after this, however many candidates are left. */
const searchMs = 6000;

/**
 * Has one of the candidates count the prompt. Another is asked only while no text has gone out, and the node
 * that got the text is the only one that may answer. The node counts as busy meanwhile.
 */
export async function countAtOne(
  { countTokens, load }: { readonly countTokens: PromptCounter; readonly load: NodeLoad },
  candidates: readonly Route[],
  shaped: Shaped,
): Promise<Counted> {
  const untilMs = performance.now() + searchMs;
  // Token ids and inputs of embeddings are judged by their bounds.
  let left = shaped.kind === 'chat' ? candidates : [];
  while (performance.now() < untilMs) {
    const route = load.choose(left);
    if (route === undefined) break;
    left = left.filter((candidate) => candidate !== route);
    let sent = false;
    let reached = true;
    load.begin(route.node);
    try {
      const tokens = await countTokens(route, shaped, {
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
  /** What there is room for; null where nobody says. */
  readonly windowTokens: number | null;
  /** Bound of the prompt from above, or its count. */
  readonly promptBound: number;
  readonly promptEstimate: number;
}

/** `max_tokens` for the node: always said, because some engines run for ever without it, and refuse one above their window. */
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

/** The smaller of two limits, where null is none. */
export function smallerOf(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
