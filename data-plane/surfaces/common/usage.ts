/** Token usage of one answer, as counted by the node or as a flagged estimate. All of it is checked, because it is billed. */

import type { AskedFacts } from './asked.ts';
import { tokensPerPair } from './prompt-size.ts';
import { integer, member } from './untrusted.ts';

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Part of the prompt that the node had cached, if the node reports it. */
  readonly cachedTokens?: number;
  /** Part of the completion that was reasoning, if the node reports it. */
  readonly reasoningTokens?: number;
  /** Set if the node did not report usage, so that the numbers are estimated from bytes. */
  readonly estimated?: true;
  /** Set if the node reported more than the request could use, so that the bounds are used instead. */
  readonly clamped?: true;
}

/** Maximum that one request can use, whatever its node reports. */
export type UsageBounds = Readonly<Pick<Usage, 'promptTokens' | 'completionTokens'>>;

/** Properties of the answering node that bound the usage. */
export interface AnsweringNode {
  /** Token limit sent to the node, per choice. */
  readonly maxTokens: number;
  /** null if unknown. */
  readonly windowTokens: number | null;
}

/** Factor for the tokens of an image if no window bounds them, because they depend on the model. */
const imageFactor = 16;

/** Maximum number of tokens that a model adds to each input. Templates of some rerankers include instructions. */
const tokensPerInput = { embeddings: 32, rerank: tokensPerPair } as const;

/** Bounds of the usage. Honest engines meet them, because `promptBytes` includes a template's text, and tools twice. */
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

/** Bytes of text per token, for estimates. */
const bytesPerToken = 4;

/** Usage in a node's answer or chunk, within the bounds. undefined if there is none that makes sense. */
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

/** Output of a model, complete or partial. */
export interface Output {
  readonly content?: string | null | undefined;
  readonly reasoning?: string | undefined;
  readonly refusal?: string | null | undefined;
  readonly toolCalls?: readonly { readonly arguments: string }[] | undefined;
}

/** UTF-8 bytes of the output, for estimates. The sum over all parts of a stream equals that of the complete answer. */
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
