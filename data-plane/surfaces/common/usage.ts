/**
 * Token usage of one response. The node's counts are checked against bounds, because usage is billed. If the node does not
 * report usage, it is estimated and marked as an estimate.
 */

import type { AskedFacts } from './asked.ts';
import { tokensPerPair } from './prompt-size.ts';
import { integer, member } from './untrusted.ts';

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Number of prompt tokens that the node had cached, if the node reports it. */
  readonly cachedTokens?: number;
  /** Number of completion tokens that were reasoning, if the node reports it. */
  readonly reasoningTokens?: number;
  /** Set if the node did not report usage, so that the numbers are estimates from bytes. */
  readonly estimated?: true;
  /** Set if the node reported more tokens than the request can have used. The numbers are then the bounds. */
  readonly clamped?: true;
}

/** Maximum usage of one request, whatever its node reports. */
export type UsageBounds = Readonly<Pick<Usage, 'promptTokens' | 'completionTokens'>>;

/** Facts about the node that answered. They limit the usage that it can report. */
export interface AnsweringNode {
  /** Token limit for each choice, as sent to the node. */
  readonly maxTokens: number;
  /** Size of the model's context window in tokens, or null if unknown. */
  readonly windowTokens: number | null;
}

/** Factor by which a model's tokens for an image may exceed the estimate. Used only if its context window is unknown. */
const imageFactor = 16;

/** Maximum number of tokens that a model adds to each input. The templates of some rerankers include instructions. */
const tokensPerInput = { embeddings: 32, rerank: tokensPerPair } as const;

/** Maximum usage of a request. Honest engines stay below, because `promptBytes` includes the template and tools twice. */
export function usageBounds(asked: AskedFacts, { maxTokens, windowTokens }: AnsweringNode): UsageBounds {
  const { promptBytes, textBytes } = asked;
  if (asked.kind !== 'chat')
    return {
      promptTokens: textBytes + tokensPerInput[asked.kind] * asked.inputs,
      completionTokens: Number.POSITIVE_INFINITY,
    };
  const ofImages = windowTokens ?? promptBytes * imageFactor;
  const promptTokens = asked.needs.includes('images') ? Math.max(ofImages, promptBytes) : promptBytes;
  return { promptTokens, completionTokens: maxTokens * asked.choices };
}

/** Assumed number of bytes per token when usage is estimated. */
const bytesPerToken = 4;

/** Usage that a node reports in a response or chunk, but at most `most`. Undefined if it is missing or not a number. */
export function readUsage(value: unknown, most: UsageBounds): Usage | undefined {
  const reportedPrompt = integer(member(value, 'prompt_tokens'));
  if (reportedPrompt === undefined) return undefined;
  const reportedCompletion = integer(member(value, 'completion_tokens')) ?? 0;
  const promptTokens = Math.min(reportedPrompt, most.promptTokens);
  const completionTokens = Math.min(reportedCompletion, most.completionTokens);
  const cachedTokens = integer(member(member(value, 'prompt_tokens_details'), 'cached_tokens'));
  const reasoningTokens =
    integer(member(member(value, 'completion_tokens_details'), 'reasoning_tokens')) ??
    integer(member(value, 'reasoning_tokens'));
  return {
    promptTokens,
    completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens: Math.min(cachedTokens, promptTokens) }),
    ...(reasoningTokens === undefined
      ? {}
      : { reasoningTokens: Math.min(reasoningTokens, completionTokens) }),
    ...(promptTokens < reportedPrompt || completionTokens < reportedCompletion ? { clamped: true } : {}),
  };
}

export function estimateUsage(promptBytes: number, completionBytes: number, most: UsageBounds): Usage {
  return {
    promptTokens: Math.min(Math.ceil(promptBytes / bytesPerToken), most.promptTokens),
    completionTokens: Math.min(Math.ceil(completionBytes / bytesPerToken), most.completionTokens),
    estimated: true,
  };
}

export interface Output {
  readonly content?: string | null | undefined;
  readonly reasoning?: string | undefined;
  readonly refusal?: string | null | undefined;
  readonly toolCalls?: readonly { readonly arguments: string }[] | undefined;
}

/** Number of UTF-8 bytes in the output, for estimates. The numbers for the parts of a stream add up to that for the whole. */
export function outputBytes({ content, reasoning, refusal, toolCalls }: Output): number {
  let bytes = 0;
  if (content) bytes += Buffer.byteLength(content);
  if (reasoning) bytes += Buffer.byteLength(reasoning);
  if (refusal) bytes += Buffer.byteLength(refusal);
  if (toolCalls) for (const call of toolCalls) bytes += Buffer.byteLength(call.arguments);
  return bytes;
}

/** Usage in the format of chat completions. */
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
