/**
 * What is to be known of an engine: one table each, read by the functions beside it.
 * A field that a table does not grant is refused by name, never dropped: engines ignore what they do not know.
 * The facts are those of the captured frames in test/fixtures/captures and of the sources of the engines.
 */
import type { Dialect } from '../../schemas/names.ts';
import type { ReasoningEffort } from '../../schemas/openai.ts';

/** A body for a node, as JSON. */
export type NodeBody = Readonly<Record<string, unknown>>;

/** How a node counts the tokens of a prompt, where it can. */
export interface TokenCounter {
  /** POST here, below the node's base address. */
  readonly path: string;
  /** Fields of the body for a node that counting takes too. */
  readonly fields: readonly string[];
  /** The field of the answer that holds the number of tokens. */
  readonly answer: string;
}

/** What some models cannot do, and an engine says only when it is asked. */
export type Inability = 'images' | 'schema' | 'dimensions' | 'thinking';

export interface DialectTable {
  readonly name: Dialect;
  /** GET answers 200 while the engine is well. */
  readonly healthPath: string;
  /** POST answers what one model can do; undefined where nothing of that is to be read. */
  readonly modelPath: string | undefined;
  readonly tokenCounter: TokenCounter | undefined;
  /** Texts of an error that mean: too long. A group, where there is one, is the window in tokens. */
  readonly contextErrors: readonly RegExp[];
  /** Texts of an error that mean: this model cannot do what the request asks. What that is tells the key. */
  readonly inabilities: Readonly<Partial<Record<Inability, RegExp>>>;

  /** Takes `max_completion_tokens` too, and heeds it before `max_tokens`. */
  readonly takesMaxCompletionTokens: boolean;
  /** What a message calls the thoughts of the model. */
  readonly reasoningField: 'reasoning' | 'reasoning_content';
  readonly reasoningEfforts: readonly ReasoningEffort[];
  /** What it calls a limit of the tokens thought; undefined where it has none. */
  readonly thinkingBudgetField: 'thinking_token_budget' | 'thinking_budget_tokens' | undefined;
  /** Takes `top_k` beside the fields of the shape. */
  readonly takesTopK: boolean;
  readonly takesLogitBias: boolean;
  readonly takesManyChoices: boolean;
  /** Heeds `frequency_penalty` and `presence_penalty`, whatever the model. */
  readonly takesPenalties: boolean;
  /** Counts the prompt in the first chunk of a stream, where `continuous_usage_stats` asks for usage on every chunk. */
  readonly tellsUsageAtStart: boolean;
  /** Answers an image on a model without eyes with an error. Otherwise only a model that is known to have them gets it. */
  readonly refusesUnseenImages: boolean;
  readonly toolChoices: readonly ('none' | 'auto' | 'required')[];
  /** `as-required`: only that tool is sent, and some tool is required. */
  readonly namedTool: 'carried' | 'as-required' | 'refused';
  /** Heeds `parallel_tool_calls: false`. Otherwise the answer is trimmed to its first call. */
  readonly takesSingleToolCall: boolean;
  /** Fields by which it continues a last message of the assistant; undefined where it cannot. */
  readonly prefill: Readonly<Record<string, boolean>> | undefined;
  /** Whether an embedding may have fewer dimensions, and whether its input may be token ids. */
  readonly takesDimensions: boolean;
  readonly takesTokenInput: boolean;
}
