/**
 * The tokens of one answer, as the node counted them or, where it did not, as estimated and flagged so.
 * Engines put them at different places; what is read here is checked, because it is what gets billed.
 */
import { integer, member } from '../core/untrusted.ts';

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Part of the prompt that the node had in its cache, where it reports that. */
  readonly cachedTokens?: number;
  /** Part of the completion that were thoughts, where it reports that. */
  readonly reasoningTokens?: number;
  /** The node reported nothing: the numbers come from bytes. */
  readonly estimated?: true;
}

/** Bytes of text to one token, for an estimate. */
const bytesPerToken = 4;

/** The usage of a node's answer or chunk; undefined where there is none that makes sense. */
export function readUsage(value: unknown): Usage | undefined {
  const promptTokens = integer(member(value, 'prompt_tokens'));
  if (promptTokens === undefined) return undefined;
  const completionTokens = integer(member(value, 'completion_tokens')) ?? 0;
  const cachedTokens = integer(member(member(value, 'prompt_tokens_details'), 'cached_tokens'));
  const reasoningTokens =
    integer(member(member(value, 'completion_tokens_details'), 'reasoning_tokens')) ??
    integer(member(value, 'reasoning_tokens'));
  return {
    promptTokens,
    completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}

export function estimateUsage(promptBytes: number, completionBytes: number): Usage {
  return {
    promptTokens: Math.ceil(promptBytes / bytesPerToken),
    completionTokens: Math.ceil(completionBytes / bytesPerToken),
    estimated: true,
  };
}

/** Usage as a chat completion shows it. */
export function usageBody(usage: Usage): object {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(cachedTokens === undefined ? {} : { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    ...(reasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
  };
}
