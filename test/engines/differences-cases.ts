/**
 * The requests that are sent to both Anthropic-style APIs, ours and llama.cpp's: all kinds of content, all ways to stop, and
 * requests that at least one refuses.
 */
import { objectOf } from './bench.ts';
import { habitualCall } from './tiny-model.ts';

export interface Case {
  readonly name: string;
  readonly path?: string;
  /** Request body without the member `model`, which is added later. */
  readonly body: Readonly<Record<string, unknown>>;
}

const user = (content: unknown): object => ({ role: 'user', content });
const plain = { max_tokens: 12, temperature: 0, messages: [user('hello there')] };
const unit = { name: habitualCall.name, description: 'Sets it', input_schema: objectOf('unit', ['c', 'f']) };
const zone = { name: 'get_zone', input_schema: objectOf('zone', ['utc', 'cet']) };
const withTools = { ...plain, max_tokens: 60, tools: [unit, zone] };
const use = { type: 'tool_use', id: 'toolu_1', ...habitualCall };
const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'done' };
const afterTool = (more: object): object => ({
  ...withTools,
  max_tokens: 12,
  messages: [user('hello there'), { role: 'assistant', content: [use] }, user([{ ...result, ...more }])],
});
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } };
const countPath = '/v1/messages/count_tokens';

/** Cases that are sent both with and without streaming. */
const answered: readonly Case[] = [
  { name: 'one turn', body: plain },
  { name: 'a system text', body: { ...plain, system: 'be kind' } },
  {
    name: 'system blocks',
    body: { ...plain, system: ['be kind', 'be brief'].map((text) => ({ type: 'text', text })) },
  },
  {
    name: 'several turns',
    body: { ...plain, messages: [user('hello'), { role: 'assistant', content: 'the well' }, user('again')] },
  },
  { name: 'a text block', body: { ...plain, messages: [user([{ type: 'text', text: 'hello there' }])] } },
  {
    name: 'two text blocks',
    body: { ...plain, messages: [user(['a', 'b'].map((text) => ({ type: 'text', text })))] },
  },
  { name: 'two turns of one role', body: { ...plain, messages: [user('hello'), user('there')] } },
  {
    name: 'a last turn to continue',
    body: { ...plain, messages: [user('hello'), { role: 'assistant', content: 'the well' }] },
  },
  { name: 'a stop sequence', body: { ...plain, max_tokens: 100, stop_sequences: ['th', 'q'] } },
  { name: 'tools', body: withTools },
  { name: 'some tool required', body: { ...withTools, tools: [unit], tool_choice: { type: 'any' } } },
  { name: 'a tool named', body: { ...withTools, tool_choice: { type: 'tool', name: unit.name } } },
  { name: 'no tool allowed', body: { ...withTools, max_tokens: 12, tool_choice: { type: 'none' } } },
  {
    name: 'one tool at a time',
    body: { ...withTools, tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
  },
  { name: 'a result of a tool', body: { ...afterTool({}) } },
  { name: 'a result of a tool that failed', body: { ...afterTool({ is_error: true }) } },
  { name: 'thinking disabled', body: { ...plain, thinking: { type: 'disabled' } } },
  { name: 'thinking left to the model', body: { ...plain, thinking: { type: 'adaptive' } } },
  {
    name: 'marks for a cache',
    body: { ...plain, system: [{ type: 'text', text: 'be', cache_control: { type: 'ephemeral' } }] },
  },
  { name: 'few likely tokens', body: { ...plain, top_k: 1, top_p: 0.5, temperature: 1 } },
];

/** Requests that at least one of the two APIs, ours or llama.cpp's, refuses. */
const refused: readonly Case[] = [
  { name: 'an image', body: { ...plain, messages: [user([image, { type: 'text', text: 'look' }])] } },
  { name: 'too long a prompt', body: { ...plain, messages: [user('word '.repeat(5000))] } },
  {
    name: 'no limit of tokens',
    body: { temperature: 0, stop_sequences: ['a', 'e'], messages: plain.messages },
  },
  { name: 'an unknown field', body: { ...plain, bogus: 1 } },
  {
    name: 'a document',
    body: {
      ...plain,
      messages: [user([{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } }])],
    },
  },
  { name: 'another model', body: { ...plain, model: 'other' } },
  { name: 'no messages', body: { ...plain, messages: [] } },
];

const counted: readonly Case[] = [
  { name: 'tokens of one turn', path: countPath, body: { messages: plain.messages } },
  {
    name: 'tokens with a system text',
    path: countPath,
    body: { messages: plain.messages, system: 'be kind' },
  },
  { name: 'tokens with tools', path: countPath, body: { messages: plain.messages, tools: [unit, zone] } },
];

export const cases: readonly Case[] = [
  ...answered.flatMap((one) => [one, { name: `${one.name}, streamed`, body: { ...one.body, stream: true } }]),
  ...refused,
  ...counted,
];
