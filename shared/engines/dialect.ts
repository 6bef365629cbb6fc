/**
 * Describes what an engine supports, in one table per engine. The gateway refuses chat settings that neither a table nor
 * `chat-fields.ts` supports, because engines silently ignore unknown fields. The facts come from test/fixtures/captures and
 * the engines' sources.
 */
import type { Dialect } from '../../schemas/names.ts';

export type NodeBody = Readonly<Record<string, unknown>>;

/** Route on which a node counts a prompt's tokens. */
export interface TokenCounter {
  /** Path of the POST route, relative to the node's base URL. */
  readonly path: string;
  /** Fields of the chat request's body that the counting route also accepts. */
  readonly fields: readonly string[];
  /** Name of the response's field with the number of tokens. */
  readonly answer: string;
}

/** A request whose response shows whether a model only reranks. */
export interface RerankSign {
  readonly path: string;
  /** Whether to send a POST that contains only the model's name. Otherwise a GET is sent. */
  readonly posts: boolean;
  readonly statuses: readonly number[];
  /** Judges the response's body if the status is not enough. `answer` is undefined if the body is not JSON. */
  readonly isGiven?: (answer: unknown) => boolean;
}

/** Capability that some models lack. Engines report this only through an error. */
export type Inability = 'images' | 'schema' | 'dimensions' | 'thinking';

export interface DialectTable {
  readonly name: Dialect;
  /** Path whose GET returns 200 while the engine is healthy. */
  readonly healthPath: string;
  /** Path whose POST returns the capabilities of one model, or undefined if the engine has no such route. */
  readonly modelPath: string | undefined;
  /** Signs that a model only reranks. All must be present. Empty if the engine cannot rerank. */
  readonly rerankSigns: readonly RerankSign[];
  readonly tokenCounter: TokenCounter | undefined;
  /** Whether the engine closes the connection after each stream without notice, so that a further request would be lost. */
  readonly closesAfterStream: boolean;
  /** Error texts that mean that the prompt is too long. A capture group, if any, contains the context window in tokens. */
  readonly contextErrors: readonly RegExp[];
  /** Error texts that report a missing capability, by capability. */
  readonly inabilities: Readonly<Partial<Record<Inability, RegExp>>>;

  /** Whether the engine accepts `max_completion_tokens` and prefers it to `max_tokens`. */
  readonly takesMaxCompletionTokens: boolean;
  /** Name of the message field that contains the model's reasoning. */
  readonly reasoningField: 'reasoning' | 'reasoning_content';
  /** Whether the first chunk of a stream contains the prompt's token count if `continuous_usage_stats` is set. */
  readonly reportsUsageAtStart: boolean;
  /** Whether the engine refuses images for models without vision. If not, only models known to accept images get them. */
  readonly refusesUnseenImages: boolean;
  readonly toolChoices: readonly ('none' | 'auto' | 'required')[];
  /** How the engine is asked to call one named tool. `as-required` sends only that tool and requires some call. */
  readonly namedTool: 'carried' | 'as-required' | 'refused';
  /** Whether the engine obeys `parallel_tool_calls: false`. If not, the gateway removes all calls but the first. */
  readonly takesSingleToolCall: boolean;
  /** Fields that make the engine continue an assistant message at the end of a prompt, or undefined if the engine cannot. */
  readonly prefill: Readonly<Record<string, boolean>> | undefined;
  /** Whether requests with different values of `cache_salt` use separate prefix caches. */
  readonly takesCacheSalt: boolean;
  /** Whether embedding requests may ask for fewer dimensions, or (`takesTokenInput`) pass token ids as input. */
  readonly takesDimensions: boolean;
  readonly takesTokenInput: boolean;
}
