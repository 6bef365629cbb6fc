/** Completions of real engines, and of engines that misbehave, as the body that a client gets. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NodeFailure } from '../core/node-failure.ts';
import { shapeChat } from '../shape/openai.ts';
import { type ChatContext, chatContext, toolCallsMax } from './chat-parts.ts';
import { rebuildChat } from './rebuild-chat.ts';
import { chatUsageBounds } from './usage.ts';

const request = (fields: object) =>
  shapeChat(
    Buffer.from(JSON.stringify({ model: 'asked', messages: [{ role: 'user', content: 'hi' }], ...fields })),
    'application/json',
  );
const tools = [{ type: 'function', function: { name: 'set_unit' } }];
const node = { maxTokens: 50, windowTokens: null };
const contextOf = (fields: object): ChatContext =>
  chatContext(request(fields), '0123456789abcdefghij', 1_800_000_000, node);
const context = contextOf({});

const captured = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../test/fixtures/captures/${name}.json`, import.meta.url), 'utf8'));

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

test('parallel calls are trimmed to the first where the client allows only one', () => {
  const calls = ['a', 'b'].map((name) => ({
    id: name,
    type: 'function',
    function: { name, arguments: '{}' },
  }));
  const given = answer({ content: null, tool_calls: calls }, 'tool_calls');
  expect(messageOf(rebuildChat(given, contextOf({ tools })).body).tool_calls).toHaveLength(2);
  const single = contextOf({ tools, parallel_tool_calls: false });
  expect(messageOf(rebuildChat(given, single).body).tool_calls).toHaveLength(1);
});

test('thoughts have one name, whatever the engine calls them', () => {
  for (const name of ['reasoning', 'reasoning_content']) {
    expect(messageOf(rebuildChat(answer({ content: 'a', [name]: 'hm' }), context).body)).toEqual({
      role: 'assistant',
      content: 'a',
      refusal: null,
      reasoning_content: 'hm',
    });
  }
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

test('usage that the node does not report is estimated and flagged', () => {
  const { usage } = rebuildChat({ choices: answer({ content: 'abcd' }).choices }, context);
  expect(usage.estimated).toBe(true);
  expect(usage.promptTokens).toBe(1);
  expect(usage.completionTokens).toBeGreaterThan(0);
});

test.each([
  ['an error', { error: { message: 'SECRET' } }, 'error'],
  ['an error as a text', { error: 'SECRET' }, 'error'],
  ['a flat error', { object: 'error', message: 'SECRET' }, 'error'],
  ['nothing', undefined, 'malformed'],
  ['a text', 'Internal Server Error', 'malformed'],
  ['no choices', { id: 'x' }, 'malformed'],
  ['too few choices', { choices: [] }, 'malformed'],
  ['too many choices', { choices: [1, 2] }, 'malformed'],
  ['a choice without a message', { choices: [{ index: 0, finish_reason: 'stop' }] }, 'malformed'],
  [
    'a choice that was not asked for',
    { choices: [{ index: 1, message: {}, finish_reason: 'stop' }] },
    'malformed',
  ],
  ['a choice that was given up', answer({ content: 'a' }, 'abort'), 'aborted'],
  ['a choice without an end', answer({ content: 'a' }, null), 'aborted'],
  ['content that is no text', answer({ content: [{ text: 'a' }] }), 'malformed'],
  ['a call without a name', answer({ tool_calls: [{ id: 'a', function: {} }] }), 'malformed'],
  [
    'arguments that are no text',
    answer({ tool_calls: [{ function: { name: 'f', arguments: {} } }] }),
    'malformed',
  ],
])('an answer that is no completion is a failure of the node: %s', (_, given, kind) => {
  try {
    rebuildChat(given, context);
  } catch (error) {
    expect(error).toBeInstanceOf(NodeFailure);
    expect((error as NodeFailure).kind).toBe(kind);
    expect(`${(error as Error).stack} ${JSON.stringify(error)}`).not.toContain('SECRET');
    return;
  }
  expect.unreachable('was taken for a completion');
});

test('nothing that a node may answer gives more than a completion or a failure', () => {
  const message = fc.record(
    {
      content: fc.oneof(fc.string(), fc.constant(null)),
      tool_calls: fc.jsonValue(),
      reasoning: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  const given = fc.oneof(
    fc.jsonValue(),
    message.map((value) => answer(value, 'stop', { extra: 'vllm' })),
  );
  fc.assert(
    fc.property(given, (value) => {
      try {
        expect(Object.keys(rebuildChat(value, context).body)).toEqual([
          'id',
          'object',
          'created',
          'model',
          'choices',
          'usage',
        ]);
      } catch (error) {
        expect(error).toBeInstanceOf(NodeFailure);
      }
    }),
  );
});

test('an answer has only so many calls of tools', () => {
  const calls = (count: number) =>
    Array.from({ length: count }, (_, n) => ({
      id: `c${n}`,
      type: 'function',
      function: { name: 'set_unit', arguments: '{}' },
    }));
  const rebuilt = (count: number) =>
    rebuildChat(
      answer({ content: null, tool_calls: calls(count) }, 'tool_calls') as never,
      contextOf({ tools }),
    );
  expect(messageOf(rebuilt(toolCallsMax).body).tool_calls).toHaveLength(toolCallsMax);
  expect(() => rebuilt(toolCallsMax + 1)).toThrow(NodeFailure);
});

test('the bounds of usage hold for no honest answer about an image, and for tools as templates indent them', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } };
  const messages = [{ role: 'user', content: [image, { type: 'text', text: 'what is it?' }] }];
  const bounds = (fields: object, windowTokens: number | null) =>
    chatUsageBounds(request(fields), { maxTokens: 7, windowTokens });
  expect(bounds({ messages, n: 3 }, 100_000)).toEqual({ promptTokens: 100_000, completionTokens: 21 });
  expect(bounds({ messages }, null).promptTokens).toBeGreaterThan(65_536);
  const indented = Buffer.byteLength(JSON.stringify(tools, null, 4));
  expect(bounds({ tools }, 8_000).promptTokens).toBeGreaterThan(indented);
});
