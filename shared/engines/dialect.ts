/**
 * Properties of an engine, one table each. A chat setting that neither a table nor chat-fields.ts supports is refused by
 * name, because engines ignore unknown fields. The facts come from test/fixtures/captures and the engines' sources.
 */
import type { Dialect } from '../../schemas/names.ts';

/** JSON body of a request to a node. */
export type NodeBody = Readonly<Record<string, unknown>>;

/** Route on which a node counts a prompt's tokens. */
export interface TokenCounter {
  /** Path of the POST route, relative to the node's base URL. */
  readonly path: string;
  /** Fields of the request body that the counting route also accepts. */
  readonly fields: readonly string[];
  /** Field of the response that contains the number of tokens. */
  readonly answer: string;
}

/** Request whose response shows that a model only reranks. */
export interface RerankSign {
  readonly path: string;
  /** If true, a POST with only the model's name. Otherwise a GET. */
  readonly posts: boolean;
  readonly statuses: readonly number[];
  /** Judges the body if the status alone is not enough. `answer` is undefined if the body is not JSON. */
  readonly isGiven?: (answer: unknown) => boolean;
}

/** Capability that some models lack and that an engine reports only through an error. */
export type Inability = 'images' | 'schema' | 'dimensions' | 'thinking';

export interface DialectTable {
  readonly name: Dialect;
  /** Path whose GET returns 200 while the engine is healthy. */
  readonly healthPath: string;
  /** Path whose POST returns one model's capabilities. undefined if the engine has no such route. */
  readonly modelPath: string | undefined;
  /** Signs of a reranker, all of which must be present. Empty if the engine cannot rerank. */
  readonly rerankSigns: readonly RerankSign[];
  readonly tokenCounter: TokenCounter | undefined;
  /** Whether the engine silently closes a connection after each stream, so that the next request could be lost. */
  readonly closesAfterStream: boolean;
  /** Error texts that mean that the prompt is too long. A capture group, if present, is the window in tokens. */
  readonly contextErrors: readonly RegExp[];
  /** Error texts that mean that the model lacks the capability named by the key. */
  readonly inabilities: Readonly<Partial<Record<Inability, RegExp>>>;

  /** Whether the engine accepts `max_completion_tokens` and prefers it to `max_tokens`. */
  readonly takesMaxCompletionTokens: boolean;
  /** Message field that contains the model's reasoning. */
  readonly reasoningField: 'reasoning' | 'reasoning_content';
  /** Whether `continuous_usage_stats` makes the first chunk of a stream contain the prompt's token count. */
  readonly reportsUsageAtStart: boolean;
  /** Whether the engine refuses an image to a model without vision. If not, only models known to accept images get one. */
  readonly refusesUnseenImages: boolean;
  readonly toolChoices: readonly ('none' | 'auto' | 'required')[];
  /** Support for naming one tool. `as-required` sends only that tool and requires some tool call. */
  readonly namedTool: 'carried' | 'as-required' | 'refused';
  /** Whether the engine obeys `parallel_tool_calls: false`. If not, the response is trimmed to its first call. */
  readonly takesSingleToolCall: boolean;
  /** Fields that make the engine continue a final assistant message. undefined if it cannot. */
  readonly prefill: Readonly<Record<string, boolean>> | undefined;
  /** Whether `cache_salt` separates the prefix caches of different requests. */
  readonly takesCacheSalt: boolean;
  /** Support for reduced embedding dimensions and for token ids as embedding input. */
  readonly takesDimensions: boolean;
  readonly takesTokenInput: boolean;
}
