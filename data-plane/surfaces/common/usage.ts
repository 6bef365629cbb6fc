/**
 * The tokens of one answer, as the node counted them or, where it did not, as estimated and flagged so.
 * Engines put them at different places; what is read here is checked, because it is what gets billed.
 */

import type { AskedFacts } from './asked.ts';
import { tokensPerPair } from './prompt-size.ts';
import { integer, member } from './untrusted.ts';

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Part of the prompt that the node had in its cache, where it reports that. */
  readonly cachedTokens?: number;
  /** Part of the completion that were thoughts, where it reports that. */
  readonly reasoningTokens?: number;
  /** The node reported nothing: the numbers come from bytes. */
  readonly estimated?: true;
  /** The node reported more than the request could use: the bounds are the numbers. */
  readonly clamped?: true;
}

/** The most that one request can use, whatever its node reports. */
export type UsageBounds = Readonly<Pick<Usage, 'promptTokens' | 'completionTokens'>>;

/** The node that answers, as far as it bounds that. */
export interface AnsweringNode {
  /** As sent to it, for each choice. */
  readonly maxTokens: number;
  /** Null where it is unknown. */
  readonly windowTokens: number | null;
}

/** What an image may be in tokens depends on the model; where no window says it, so many times what one usually is. */
const imageFactor = 16;

/** What a model adds to each input, at most: the template of some rerankers says what is to be judged. */
const tokensPerInput = { embeddings: 32, rerank: tokensPerPair } as const;

/** An honest engine is within them: `promptBytes` has what a template adds, and tools twice. */
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

/** Bytes of text to one token, for an estimate. */
const bytesPerToken = 4;

/** The usage of a node's answer or chunk, within the bounds; undefined where there is none that makes sense. */
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

/** What a model wrote, whole or a part of it. */
export interface Output {
  readonly content?: string | null | undefined;
  readonly reasoning?: string | undefined;
  readonly refusal?: string | null | undefined;
  readonly toolCalls?: readonly { readonly arguments: string }[] | undefined;
}

/** UTF-8 bytes, for an estimate; of an answer as of all parts of its stream. */
export function outputBytes({ content, reasoning, refusal, toolCalls }: Output): number {
  let bytes = 0;
  if (content) bytes += Buffer.byteLength(content);
  if (reasoning) bytes += Buffer.byteLength(reasoning);
  if (refusal) bytes += Buffer.byteLength(refusal);
  if (toolCalls) for (const call of toolCalls) bytes += Buffer.byteLength(call.arguments);
  return bytes;
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
