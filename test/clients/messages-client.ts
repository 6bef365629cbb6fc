/**
 * What every library of the Anthropic-style API is made to do here, in words of none of them. A driver puts an `Ask` into
 * the library's own terms and reads its answer back; all that an `Ask` does not say is the library's default.
 */
import type { Failure } from './client.ts';
import type { Target } from './client-fleet.ts';

export interface Ask extends Target {
  readonly model: string;
  readonly text: string;
  readonly system?: string;
  /** A picture after the text: the data of a PNG in base64. */
  readonly image?: string;
  /** Offers the tool `weather`. */
  readonly tools?: 'auto' | 'any' | 'named' | 'none';
  /** One call at a time. */
  readonly oneCall?: true;
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  /** A number is a budget of tokens. */
  readonly thinking?: 'disabled' | 'adaptive' | number;
  readonly effort?: 'low' | 'high';
  /** The answer as JSON of this schema. */
  readonly schema?: object;
  /** Hints to a cache at text and system. */
  readonly cache?: true;
  readonly user?: string;
}

export interface Said {
  readonly thoughts: string;
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly input: unknown }[];
  /** `stop_reason`, where the library shows it. */
  readonly stop: string | undefined;
  readonly stopSequence?: string | undefined;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface ToolTurns {
  /** With which the tool was called, in order. */
  readonly inputs: readonly unknown[];
  /** The answer after the last result. */
  readonly text: string;
}

export interface MessagesClient {
  whole(ask: Ask): Promise<Said>;
  /** The same by a stream, put together by the library; rejects where it ends early. */
  stream(ask: Ask): Promise<Said>;
  /** Lets the tool `weather` be called, answers with `toolResult`, and continues until no tool is called. */
  converse(ask: Ask): Promise<ToolTurns>;
  countTokens?(ask: Ask): Promise<number>;
  /** The ids of the listing. */
  models?(target: Target): Promise<readonly string[]>;
  failure(error: unknown): Failure;
}

export const weatherTool = {
  name: 'weather',
  description: 'The weather of a city',
  input_schema: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
};

/** Where an `Ask` sets no limit; enough for a budget of thoughts. */
export const maxTokensDefault = 2000;

/** The body of a request, as the official libraries take it. */
export function bodyOf(ask: Ask): Record<string, unknown> {
  const hint = ask.cache && { cache_control: { type: 'ephemeral' } };
  const image = ask.image !== undefined && {
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: ask.image },
  };
  const content =
    image || hint ? [{ type: 'text', text: ask.text, ...hint }, ...(image ? [image] : [])] : ask.text;
  const output = {
    ...(ask.effort && { effort: ask.effort }),
    ...(ask.schema && { format: { type: 'json_schema', schema: ask.schema } }),
  };
  return {
    model: ask.model,
    max_tokens: ask.maxTokens ?? maxTokensDefault,
    messages: [{ role: 'user', content }],
    ...(ask.system !== undefined && {
      system: hint ? [{ type: 'text', text: ask.system, ...hint }] : ask.system,
    }),
    ...toolsOf(ask),
    ...(ask.stop && { stop_sequences: ask.stop }),
    ...(ask.temperature !== undefined && { temperature: ask.temperature }),
    ...(ask.topP !== undefined && { top_p: ask.topP }),
    ...(ask.topK !== undefined && { top_k: ask.topK }),
    ...(ask.thinking !== undefined && { thinking: thinkingOf(ask.thinking) }),
    ...(Object.keys(output).length > 0 && { output_config: output }),
    ...(ask.user !== undefined && { metadata: { user_id: ask.user } }),
  };
}

export function thinkingOf(thinking: NonNullable<Ask['thinking']>): object {
  return typeof thinking === 'number' ? { type: 'enabled', budget_tokens: thinking } : { type: thinking };
}

function toolsOf({ tools, oneCall, cache }: Ask): object {
  if (tools === undefined) return {};
  const types = { auto: 'auto', any: 'any', named: 'tool', none: 'none' };
  return {
    tools: [{ ...weatherTool, ...(cache && { cache_control: { type: 'ephemeral' } }) }],
    tool_choice: {
      type: types[tools],
      ...(tools === 'named' && { name: weatherTool.name }),
      ...(oneCall && { disable_parallel_tool_use: true }),
    },
  };
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly name?: string;
  readonly input?: unknown;
}

/** A message of the API, as the official libraries give it. */
export interface Message {
  readonly content: readonly Block[];
  readonly stop_reason: string | null;
  readonly stop_sequence: string | null;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

export function saidBy({ content, stop_reason: stop, stop_sequence: sequence, usage }: Message): Said {
  const of = (type: string): readonly Block[] => content.filter((block) => block.type === type);
  return {
    thoughts: of('thinking')
      .map(({ thinking }) => thinking)
      .join(''),
    text: of('text')
      .map(({ text }) => text)
      .join(''),
    calls: of('tool_use').map(({ name = '', input }) => ({ name, input })),
    stop: stop ?? undefined,
    stopSequence: sequence ?? undefined,
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
  };
}
