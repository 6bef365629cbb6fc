/**
 * How many tokens a request needs, and how many its answer may have (Limits 3; design: Context).
 * Bytes bound tokens from above, so most requests pass uncounted; the rest ask the routed node's own counter, or are
 * estimated. No tokeniser of ours runs on the event loop.
 */
import type { Lookup, Route } from '../../shared/snapshot/lookup.ts';
import type { RequestFacts } from './decide.ts';
import type { AnyChat, AnyEmbeddings } from './outline.ts';
import { Refusal } from './refusal.ts';
import { route } from './route.ts';

/** Typical text has at least this many bytes a token. */
const bytesPerToken = 3;
/** Sent where neither request, tier nor node says how long an answer may be. */
const answerTokensDefault = 4096;

type Shaped = AnyChat | AnyEmbeddings;

export function estimateTokens(shaped: Pick<Shaped, 'textBytes'>): number {
  return Math.ceil(shaped.textBytes / bytesPerToken) + 8;
}

/** A node's answer to "how many tokens are these?"; undefined where it has none. */
export type TokenCounter = (route: Route, shaped: Shaped) => Promise<number | undefined>;

/** Tokens of the prompt: counted by the node that would answer, else estimated. Asked only where the bound does not fit. */
export async function promptTokens(
  lookup: Lookup,
  facts: RequestFacts,
  shaped: Shaped,
  count: TokenCounter,
): Promise<number> {
  const { caller } = facts;
  const organisation = caller.kind === 'key' ? caller.owner.organisation : null;
  const tier = caller.kind === 'key' ? caller.owner.tier : lookup.anonymousTier();
  const placement = route(lookup, {
    target: facts.target,
    organisation,
    tier: tier?.id ?? null,
    model: facts.model,
    path: facts.path,
  });
  const candidate = placement instanceof Refusal ? undefined : placement.candidates[0];
  const counted = candidate ? await count(candidate, shaped) : undefined;
  return counted ?? estimateTokens(shaped);
}

export interface AnswerRoom {
  /** What the client asked for; undefined: as much as there is. */
  readonly asked: number | undefined;
  /** The smaller of what tier and node hold; null where neither says. */
  readonly windowTokens: number | null;
  /** Bound of the prompt from above, or its count. */
  readonly promptBound: number;
  readonly promptEstimate: number;
}

/** `max_tokens` for the node: always said, because some engines run for ever without it, and refuse one above their window. */
export function answerTokens({ asked, windowTokens, promptBound, promptEstimate }: AnswerRoom): number {
  if (windowTokens === null) return asked ?? answerTokensDefault;
  const likely = Math.max(1, windowTokens - promptEstimate);
  if (asked !== undefined) return Math.min(asked, likely);
  // Nothing was asked, so no refusal may come of a prompt that has more tokens than was estimated.
  return Math.max(windowTokens - promptBound, Math.min(likely, Math.ceil(windowTokens / 4)));
}

/** Whether the bound may leave less room than there is, so that the prompt is to be counted before an answer is given its length. */
export function isTight({ asked, windowTokens, promptBound }: AnswerRoom): boolean {
  if (windowTokens === null) return false;
  return promptBound + (asked ?? Math.ceil(windowTokens / 4)) > windowTokens;
}

/** The smaller of two limits, where null is none. */
export function smallerOf(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
