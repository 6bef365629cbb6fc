/**
 * The properties of an engine: one table each, read by the functions next to it. The settings of a chat that it takes are in
 * chat-fields.ts. What neither grants is refused by name, never dropped: engines ignore fields that they do not know.
 * The facts are those of the captured frames in test/fixtures/captures and of the sources of the engines.
 */
import type { Dialect } from '../../schemas/names.ts';

/** A body for a node, as JSON. */
export type NodeBody = Readonly<Record<string, unknown>>;

/** How a node counts the tokens of a prompt, where it can. */
export interface TokenCounter {
  /** POST here, below the node's base address. */
  readonly path: string;
  /** Fields of the request body that the counting route accepts, too. */
  readonly fields: readonly string[];
  /** The field of the response that contains the number of tokens. */
  readonly answer: string;
}

/** A request whose response shows that a model reranks and does nothing else. */
export interface RerankSign {
  readonly path: string;
  /** POST, with the name of the model and nothing else; otherwise GET. */
  readonly posts: boolean;
  readonly statuses: readonly number[];
  /** Whether the body says so, where the status does not suffice. `answer` is undefined where it is no JSON. */
  readonly isGiven?: (answer: unknown) => boolean;
}

/** A capability that some models lack, which an engine reports only in an error. */
export type Inability = 'images' | 'schema' | 'dimensions' | 'thinking';

export interface DialectTable {
  readonly name: Dialect;
  /** GET returns 200 while the engine is healthy. */
  readonly healthPath: string;
  /** POST returns the capabilities of one model; undefined where the engine has no such route. */
  readonly modelPath: string | undefined;
  /** All of them must be given; none where the engine reranks nothing. */
  readonly rerankSigns: readonly RerankSign[];
  readonly tokenCounter: TokenCounter | undefined;
  /** Closes the connection after each stream without saying so in its head: a next request on it could be lost. */
  readonly closesAfterStream: boolean;
  /** Texts of an error that mean: too long. A group, where there is one, is the window in tokens. */
  readonly contextErrors: readonly RegExp[];
  /** Texts of an error that mean: this model lacks the capability named by the key. */
  readonly inabilities: Readonly<Partial<Record<Inability, RegExp>>>;

  /** Accepts `max_completion_tokens`, too, and prefers it to `max_tokens`. */
  readonly takesMaxCompletionTokens: boolean;
  /** The field of a message with the reasoning of the model. */
  readonly reasoningField: 'reasoning' | 'reasoning_content';
  /** Counts the prompt in the first chunk of a stream, where `continuous_usage_stats` asks for usage on every chunk. */
  readonly reportsUsageAtStart: boolean;
  /** Returns an error for an image on a model without vision. Otherwise only models known to have it are sent images. */
  readonly refusesUnseenImages: boolean;
  readonly toolChoices: readonly ('none' | 'auto' | 'required')[];
  /** `as-required`: only that tool is sent, and some tool is required. */
  readonly namedTool: 'carried' | 'as-required' | 'refused';
  /** Applies `parallel_tool_calls: false`. Otherwise the response is trimmed to its first call. */
  readonly takesSingleToolCall: boolean;
  /** Fields by which it continues a last message of the assistant; undefined where it cannot. */
  readonly prefill: Readonly<Record<string, boolean>> | undefined;
  /** Keeps the prefix caches of requests with different values of `cache_salt` apart. */
  readonly takesCacheSalt: boolean;
  /** Whether an embedding may have fewer dimensions, and whether its input may be token ids. */
  readonly takesDimensions: boolean;
  readonly takesTokenInput: boolean;
}
