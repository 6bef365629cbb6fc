/** Completions of real engines, and of engines that misbehave, as the body that a client gets. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type AnswerFacts, answerFacts } from '../../answer/chat-parts.ts';
import { usageBounds } from '../../answer/usage.ts';
import { NodeFailure } from '../../core/node-failure.ts';
import { rebuildChat } from './rebuild-chat.ts';
import { shapeChat } from './shape-chat.ts';

const request = (fields: object) =>
  shapeChat({ model: 'asked', messages: [{ role: 'user', content: 'hi' }], ...fields }).asked;
const tools = [{ type: 'function', function: { name: 'set_unit' } }];
const node = { maxTokens: 50, windowTokens: null };
const ids = { unique: '0123456789abcdefghij', createdSeconds: 1_800_000_000 };
const contextOf = (fields: object): AnswerFacts => answerFacts(request(fields), ids, node);
const context = contextOf({});

const captured = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/captures/${name}.json`, import.meta.url), 'utf8'));

const answer = (message: object, finish: unknown = 'stop', more: object = {}) => ({
  choices: [{ index: 0, message, finish_reason: finish }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  ...more,
});

interface Message {
  readonly content: string | null;
  readonly tool_calls?: { id: string; function: { name: string; arguments: string } }[];
}
const messageOf = (body: object) =>
  (body as { choices: { message: Message }[] }).choices[0]?.message as Message;

test.each([
  ['vllm/15-chat', ' w atheouzu', { prompt_tokens: 23, completion_tokens: 6, total_tokens: 29 }],
  [
    'sglang/15-chat',
    ' w atheouzu',
    {
      prompt_tokens: 23,
      completion_tokens: 6,
      total_tokens: 29,
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  ],
  [
    'llamacpp/15-chat',
    '  the  the  the',
    {
      prompt_tokens: 23,
      completion_tokens: 6,
      total_tokens: 29,
      prompt_tokens_details: { cached_tokens: 5 },
    },
  ],
  ['ollama/15-chat', ' the  the  the ', { prompt_tokens: 24, completion_tokens: 6, total_tokens: 30 }],
])(
  'Routing, rules: a completion is rebuilt whole, and reveals nothing of where it ran: %s',
  (name, content, usage) => {
    expect(rebuildChat(captured(name), context).body).toEqual({
      id: 'chatcmpl-0123456789abcdefghij',
      object: 'chat.completion',
      created: 1_800_000_000,
      model: 'asked',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content, refusal: null },
          logprobs: null,
          finish_reason: 'length',
        },
      ],
      usage,
    });
  },
);

test.each([
  ['llamacpp/205-tools-required-qwen-template', '{ "unit" : "c" }'],
  ['sglang/235-tools-two-complete', '{"unit": "c"}'],
])('tool calls are taken over with ids of our own: %s', (name, args) => {
  const { tool_calls: calls } = messageOf(rebuildChat(captured(name), contextOf({ tools })).body);
  expect(calls).toEqual([
    {
      id: 'call_0123456789abcdefghij0000',
      type: 'function',
      function: { name: 'set_unit', arguments: args },
    },
  ]);
});

test.each(['vllm/210-tools-truncated', 'llamacpp/209-tools-truncated'])(
  'a tool call that the limit cut stays out of the content: %s',
  (name) => {
    expect(messageOf(rebuildChat(captured(name), contextOf({ tools })).body).content).toBeNull();
    // Without tools the same text is what the model said.
    expect(messageOf(rebuildChat(captured(name), context).body).content).toContain('<tool_call>');
  },
);

test('text before a call that was cut stays', () => {
  const cut = answer({ content: 'Sure. <tool_call>\n{"na' }, 'length');
  expect(messageOf(rebuildChat(cut, contextOf({ tools })).body).content).toBe('Sure. ');
  const whole = answer({ content: 'A call begins with <tool_call>.' }, 'stop');
  expect(messageOf(rebuildChat(whole, contextOf({ tools })).body).content).toBe(
    'A call begins with <tool_call>.',
  );
});

const callOf = (called: object) => ({ tool_calls: [{ id: 'x', type: 'function', function: called }] });

test.each([
  ['""', ''],
  ['white space', ' \n'],
  ['null', null],
  ['left out', undefined],
])('a call without arguments has an empty object of them: %s', (_, given) => {
  const called = callOf({ name: 'f', arguments: given });
  const { tool_calls: calls } = messageOf(rebuildChat(answer(called), contextOf({ tools })).body);
  expect(calls?.[0]?.function.arguments).toBe('{}');
  // A call that the token limit cut is not completed, because clients would run it.
  const cut = messageOf(rebuildChat(answer(called, 'length'), contextOf({ tools })).body);
  expect(cut.tool_calls?.[0]?.function.arguments.trim()).toBe('');
});

test.each([
  ['stop', callOf({ name: 'f', arguments: '{}' }), 'tool_calls'],
  ['function_call', callOf({ name: 'f', arguments: '{}' }), 'tool_calls'],
  ['length', callOf({ name: 'f', arguments: '{' }), 'length'],
  ['tool_calls', { content: 'none' }, 'stop'],
  ['tool_calls', { tool_calls: [] }, 'stop'],
])('the calls decide the reason for the end, not the engine: %s of %j is %s', (given, message, expected) => {
  const { body } = rebuildChat(answer(message, given), contextOf({ tools }));
  expect(body).toMatchObject({ choices: [{ finish_reason: expected }] });
});

test('choices come in their order, whatever order the node gave', () => {
  const choices = [1, 0].map((index) => ({
    index,
    message: { content: `c${index}` },
    finish_reason: 'stop',
  }));
  const { body } = rebuildChat({ choices, usage: {} }, contextOf({ n: 2 }));
  expect((body as { choices: { index: number }[] }).choices.map(({ index }) => index)).toEqual([0, 1]);
});

test('a choice that comes twice is a failure', () => {
  const choices = [0, 0].map((index) => ({ index, message: { content: 'a' }, finish_reason: 'stop' }));
  expect(() => rebuildChat({ choices }, contextOf({ n: 2 }))).toThrow(NodeFailure);
});

test('the bounds of usage hold for no honest answer about an image, and for tools as templates indent them', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } };
  const messages = [{ role: 'user', content: [image, { type: 'text', text: 'what is it?' }] }];
  const bounds = (fields: object, windowTokens: number | null) =>
    usageBounds(request(fields), { maxTokens: 7, windowTokens });
  expect(bounds({ messages, n: 3 }, 100_000)).toEqual({ promptTokens: 100_000, completionTokens: 21 });
  expect(bounds({ messages }, null).promptTokens).toBeGreaterThan(65_536);
  const indented = Buffer.byteLength(JSON.stringify(tools, null, 4));
  expect(bounds({ tools }, 8_000).promptTokens).toBeGreaterThan(indented);
});
