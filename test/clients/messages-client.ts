/**
 * Operations that the tests need from every library of the Anthropic-style API, under names that do not depend on the
 * library. A driver translates an `Ask` into the library's terms and reads its answer. Anything that an `Ask` leaves out is
 * the library's default.
 */
import type { Failure } from './client.ts';
import type { Target } from './client-fleet.ts';

export interface Ask extends Target {
  readonly model: string;
  readonly text: string;
  readonly system?: string;
  /** Base64 of a PNG picture that follows the text. */
  readonly image?: string;
  /** Offers the tool `weather` with this tool choice. */
  readonly tools?: 'auto' | 'any' | 'named' | 'none';
  readonly oneCall?: true;
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  /** Thinking mode. A number is a budget in tokens. */
  readonly thinking?: 'disabled' | 'adaptive' | number;
  readonly effort?: 'low' | 'high';
  /** Asks for JSON that matches this schema. */
  readonly schema?: object;
  /** Adds cache hints to the text and the system text. */
  readonly cache?: true;
  readonly user?: string;
}

export interface Said {
  readonly thoughts: string;
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly input: unknown }[];
  /** The `stop_reason`, if the library exposes it. */
  readonly stop: string | undefined;
  readonly stopSequence?: string | undefined;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface ToolTurns {
  /** Arguments of the tool calls, in order. */
  readonly inputs: readonly unknown[];
  /** Text of the answer that follows the last tool result. */
  readonly text: string;
}

export interface MessagesClient {
  whole(ask: Ask): Promise<Said>;
  /** Asks for a stream, which the library assembles. Rejects if it ends early. */
  stream(ask: Ask): Promise<Said>;
  /**
   * Lets the model call the tool `weather`, answers each call with `toolResult`, and continues until the model calls no tool.
   */
  converse(ask: Ask): Promise<ToolTurns>;
  countTokens?(ask: Ask): Promise<number>;
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

/** Token limit if an `Ask` sets none. It is large enough for a thinking budget. */
export const maxTokensDefault = 2000;

/** Request body in the form that the official libraries take. */
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

/** A message in the form that the official libraries return. */
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
