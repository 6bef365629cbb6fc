/** Tests the strict schema of the Anthropic-style API with every row of its tables and with the defaults of real clients. */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Dialect } from '../../../schemas/names.ts';
import { readTokenCount, tokenCountRequest } from '../../../shared/engines/node-answers.ts';
import { anthropicNoOpFields } from '../../../test/support/no-op-fields.ts';
import { shapeRefusal } from '../../../test/support/shape-refusal.ts';
import { toNodeBody } from '../common/node-body.ts';
import type { ShapeHeaders } from '../common/surface.ts';
import { countTokensBody, shapeCountTokens, shapeMessages } from './shape-messages.ts';

const older: ShapeHeaders = { contentType: 'application/json', version: '2023-06-01' };
const newer: ShapeHeaders = { ...older, version: '2026-10-21' };
const user = { role: 'user', content: 'hi' };
const tool = { name: 'get_time', description: 'The time', input_schema: { type: 'object' } };
const text = (words: string) => ({ type: 'text', text: words });
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
const use = (id: string, input: object = {}) => ({ type: 'tool_use', id, name: 'get_time', input });
const result = (id: string, fields: object = {}) => ({ type: 'tool_result', tool_use_id: id, ...fields });

const bodyOf = (fields: object) => ({ model: 'echo', max_tokens: 50, messages: [user], ...fields });
const shape = (fields: object, headers = older) => shapeMessages(bodyOf(fields), headers);
const shapeTurns = (...messages: object[]) => shape({ messages }).asked.body.messages;
const count = (fields: object) => shapeCountTokens({ model: 'echo', messages: [user], ...fields }, older);

/** Returns the body for a node with a large context window. */
const nodeBody = (fields: object, dialect: Dialect, headers = older): Record<string, unknown> =>
  toNodeBody(shape(fields, headers).asked, dialect, { servedName: 'served', maxTokens: 50 });

test('a minimal request is a chat with one choice and a limit', () => {
  expect(shape({})).toEqual({
    context: { thinkingDisplay: 'shown', stopSequences: [] },
    asked: {
      kind: 'chat',
      model: 'echo',
      stream: false,
      maxTokens: 50,
      choices: 1,
      logprobs: false,
      hasSchema: false,
      needs: [],
      paths: {
        reasoning_effort: ['output_config', 'effort'],
        response_format: ['output_config', 'format'],
        thinking_budget: ['thinking', 'budget_tokens'],
      },
      body: { messages: [user] },
      promptBytes: 2 + 32 + 512,
      likelyTokens: 9,
      textBytes: 2,
    },
  });
});

test('a node receives the served name, a limit, and nothing else of the envelope', () => {
  expect(nodeBody({ stream: true, metadata: { user_id: 'SECRET' } }, 'vllm')).toEqual({
    model: 'served',
    messages: [user],
    max_tokens: 50,
    max_completion_tokens: 50,
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
  });
});

test.each(['sglang', 'llamacpp', 'ollama'] as const)(
  'an engine that does not count the prompt at once is not asked to do so: %s',
  (dialect) => {
    expect(nodeBody({ stream: true }, dialect)).toMatchObject({ stream_options: { include_usage: true } });
    expect(JSON.stringify(nodeBody({ stream: true }, dialect))).not.toContain('continuous');
  },
);

const functionTool = {
  type: 'function',
  function: { name: 'get_time', description: 'The time', parameters: { type: 'object' } },
};

test.each([
  ['unset sampling', { top_k: -1, top_p: -1, temperature: 1 }, { temperature: 1 }],
  ['stop_sequences', { stop_sequences: ['a', 'b'] }, { stop: ['a', 'b'] }],
  ['no stop_sequences', { stop_sequences: [] }, {}],
  [
    'a strict tool with a named type',
    { tools: [{ ...tool, type: 'custom', strict: true }] },
    { tools: [{ ...functionTool, function: { ...functionTool.function, strict: true } }] },
  ],
  ['no tools', { tools: [], tool_choice: { type: 'auto' } }, {}],
])('the node receives the translated fields for %s', (_, fields, expected) => {
  const { model, messages, max_tokens, max_completion_tokens, stream, ...rest } = nodeBody(fields, 'vllm');
  expect(rest).toEqual(expected);
});

test.each([
  ['vllm', { thinking_token_budget: 40, top_k: 5 }],
  ['llamacpp', { thinking_budget_tokens: 40, top_k: 5 }],
] as const)('the thinking budget and top_k get the names that the engine uses: %s', (dialect, expected) => {
  const fields = { thinking: { type: 'enabled', budget_tokens: 40 }, top_k: 5 };
  expect(nodeBody(fields, dialect)).toMatchObject(expected);
});

test.each([
  ['sglang', { thinking: { type: 'enabled', budget_tokens: 40 } }, 'thinking.budget_tokens'],
  ['ollama', { thinking: { type: 'enabled', budget_tokens: 40 } }, 'thinking.budget_tokens'],
  ['ollama', { top_k: 5 }, 'top_k'],
  ['ollama', { output_config: { effort: 'max' } }, 'output_config.effort'],
  ['ollama', { tools: [tool], tool_choice: { type: 'any' } }, 'tool_choice'],
  ['ollama', { tools: [tool], tool_choice: { type: 'tool', name: 'get_time' } }, 'tool_choice'],
  ['ollama', { tools: [tool], tool_choice: { type: 'none' } }, 'tool_choice'],
  ['ollama', { messages: [user, { role: 'user', content: [text('a'), image] }] }, 'messages[1].content[1]'],
  [
    'ollama',
    { messages: [user, { role: 'user', content: [result('a', { content: [text('a'), image] })] }] },
    'messages[1].content[0].content[1]',
  ],
  ['ollama', { system: 'x', messages: [user, user, { role: 'assistant', content: 'So' }] }, 'messages[2]'],
] as const)(
  'Errors 2: what the engine cannot do is refused by its path in the caller’s body: %s %j',
  (dialect, fields, path) => {
    const message = shapeRefusal(() => nodeBody(fields, dialect));
    expect(message).toBe(`${path}: is not supported for this model`);
  },
);

test.each(['vllm', 'sglang', 'llamacpp', 'ollama'] as const)(
  'unset sampling and disabled thinking are accepted everywhere: %s',
  (dialect) => {
    const body = nodeBody({ top_k: -1, top_p: -1, thinking: { type: 'disabled' } }, dialect);
    expect(body).not.toHaveProperty('top_k');
    expect(body).not.toHaveProperty('top_p');
    expect(body).toMatchObject({ reasoning_effort: 'none' });
  },
);

test.each([
  [{ type: 'adaptive', display: 'omitted' }, 'omitted'],
  [{ type: 'enabled', budget_tokens: 40, display: 'omitted' }, 'omitted'],
  [{ type: 'adaptive', display: null }, 'shown'],
  [{ type: 'disabled' }, 'shown'],
])('the thinking display %j is %s', (thinking, expected) => {
  expect(shape({ thinking }).context.thinkingDisplay).toBe(expected);
});

const toolCall = (id: string, args: string) => ({
  id,
  type: 'function',
  function: { name: 'get_time', arguments: args },
});
const imageUrl = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };

test.each([
  ['one text block becomes a text', [{ role: 'user', content: [text('hi')] }], [user]],
  [
    'several blocks become parts',
    [{ role: 'user', content: [text('a'), image, text('b')] }],
    [{ role: 'user', content: [text('a'), imageUrl, text('b')] }],
  ],
  [
    'thoughts, text and calls in one turn',
    [
      user,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'opaque' },
          text('I look'),
          use('t1', { zone: 'UTC' }),
          use('t2'),
        ],
      },
      { role: 'user', content: [result('t1', { content: 'noon' }), result('t2')] },
    ],
    [
      user,
      {
        role: 'assistant',
        content: 'I look',
        reasoning_content: 'hm',
        tool_calls: [toolCall('t1', '{"zone":"UTC"}'), toolCall('t2', '{}')],
      },
      { role: 'tool', tool_call_id: 't1', content: 'noon' },
      { role: 'tool', tool_call_id: 't2', content: '' },
    ],
  ],
  [
    'results precede the user’s other content, which begins with their images',
    [
      {
        role: 'user',
        content: [
          text('and'),
          result('t1', { content: [text('a'), image, text('b')] }),
          result('t2', { content: [image], is_error: true }),
        ],
      },
    ],
    [
      { role: 'tool', tool_call_id: 't1', content: 'a\n\nb' },
      { role: 'tool', tool_call_id: 't2', content: 'Error: ' },
      { role: 'user', content: [imageUrl, imageUrl, text('and')] },
    ],
  ],
])('a conversation is translated: %s', (_, turns, expected) => {
  expect(shapeTurns(...turns)).toEqual(expected);
});

test.each([
  ['Be brief.', 'Be brief.'],
  [[text('a'), text('b')], 'a\n\nb'],
])('the system prompt is the first message: %j', (system, content) => {
  expect(shape({ system }).asked.body.messages).toEqual([{ role: 'system', content }, user]);
});

test('an empty system prompt counts as absent', () => {
  expect(shape({ system: '' }).asked.body.messages).toEqual([user]);
  expect(shape({ system: [] }).asked.body.messages).toEqual([user]);
});

/** A body for each documented field that has no effect: its value, and the fields around it. */
const noOps: Readonly<Record<string, object>> = {
  cache_control: { cache_control: { type: 'ephemeral' } },
  'system[].cache_control': { system: [{ ...text('s'), cache_control: { type: 'ephemeral', ttl: '1h' } }] },
  'messages[].content[].cache_control': {
    messages: [
      { role: 'user', content: [{ ...text('a'), cache_control: { type: 'ephemeral', scope: 'global' } }] },
    ],
  },
  'messages[].content[].content[].cache_control': {
    messages: [
      {
        role: 'user',
        content: [result('t', { content: [{ ...text('a'), cache_control: { type: 'ephemeral' } }] })],
      },
    ],
  },
  'tools[].cache_control': { tools: [{ ...tool, cache_control: { type: 'ephemeral' } }] },
  'messages[].content[].signature': {
    messages: [
      {
        role: 'assistant',
        content: [{ type: 'thinking', thinking: 'a', signature: 'SECRET' }],
      },
      user,
    ],
  },
  'messages[].content[].caller': {
    messages: [
      { role: 'assistant', content: [{ ...use('t'), caller: { type: 'direct' } }] },
      { role: 'user', content: [result('t')] },
    ],
  },
  'tools[].eager_input_streaming': { tools: [{ ...tool, eager_input_streaming: true }] },
  'tools[].defer_loading': { tools: [{ ...tool, defer_loading: false }] },
  'tools[].allowed_callers': { tools: [{ ...tool, allowed_callers: ['direct'] }] },
  context_management: {
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  },
  'output_config.effort': { thinking: { type: 'disabled' }, output_config: { effort: 'low' } },
  speed: { speed: 'standard' },
  'metadata.user_id': { metadata: { user_id: 'SECRET' } },
  service_tier: { service_tier: 'standard_only' },
  top_k: { top_k: -1 },
  top_p: { top_p: -1 },
};

test.each(anthropicNoOpFields.messages)('$path is accepted and reaches no node', ({ path }) => {
  const fields = noOps[path];
  expect(fields).toBeDefined();
  const sent = JSON.stringify(nodeBody(fields as object, 'vllm'));
  for (const trace of ['cache', 'ephemeral', 'SECRET', 'signature', 'direct', 'eager', 'defer', 'allowed']) {
    expect(sent).not.toContain(trace);
  }
  for (const trace of ['context', 'speed', 'standard', 'metadata', 'top_', '"low"']) {
    expect(sent).not.toContain(trace);
  }
});

test.each(anthropicNoOpFields.count_tokens)('$path is accepted when counting tokens', ({ path }) => {
  expect(count(noOps[path] as object).kind).toBe('chat');
});

const within = (block: object) => ({ messages: [{ role: 'user', content: [text('a'), block] }] });
const said = (...blocks: object[]) => ({ messages: [{ role: 'assistant', content: blocks }, user] });

test.each<[string, object, string]>([
  ['cache warming', { max_tokens: 0 }, 'max_tokens: must be at least 1'],
  ['no messages', { messages: [] }, 'messages: must not be empty'],
  [
    'only empty instructions',
    { messages: [{ role: 'system', content: [text('')] }] },
    'messages: must not be empty',
  ],
  ['an empty turn', { messages: [{ role: 'user', content: [] }] }, 'messages[0].content: must not be empty'],
  ['an unknown role', { messages: [{ role: 'tool', content: 'a' }] }, 'messages[0].role: has a form'],
  ['temperature over 1', { temperature: 1.5 }, 'temperature: must be at most 1'],
  ['top_p below 0', { top_p: -0.5 }, 'top_p: must be at least 0'],
  ['a top_k of 0', { top_k: 0 }, 'top_k: must be at least 1'],
  ['a field of the engine’s own', { n_predict: 5 }, 'n_predict: is not a supported field'],
  ['a field of the chat API', { n: 1 }, 'n: is not a supported field'],
  ['metadata of another type', { metadata: { a: 1 } }, 'metadata.a: is not a supported field'],
  [
    'an edit that clears content',
    { context_management: { edits: [{ type: 'clear_thinking_20251015', keep: { value: 1 } }] } },
    'context_management.edits[0].keep: must be one of "all"',
  ],
  [
    'a budget above the limit',
    { thinking: { type: 'enabled', budget_tokens: 50 } },
    'thinking.budget_tokens: must be less than max_tokens',
  ],
  ['an unknown effort', { output_config: { effort: 'none' } }, 'output_config.effort: must be one of'],
  ['tool_choice without tools', { tool_choice: { type: 'any' } }, 'tool_choice: needs tools'],
  [
    'tool_choice of an unknown tool',
    { tools: [tool], tool_choice: { type: 'tool', name: 'other' } },
    'tool_choice.name: must be one of the tools',
  ],
  ['a tool without an input schema', { tools: [{ name: 'a' }] }, 'tools[0].input_schema: must be an object'],
  [
    'an image by file id',
    within({ type: 'image', source: { type: 'file', file_id: 'f' } }),
    'messages[0].content[1].source.type',
  ],
  ['an image from the assistant', said(image), 'messages[0].content[0].type: has a form'],
  ...[
    'document',
    'search_result',
    'container_upload',
    'server_tool_use',
    'web_search_tool_result',
    'tool_reference',
    'compaction',
    'fallback',
  ].map((type): [string, object, string] => [
    `a block of type ${type}`,
    within({ type }),
    'messages[0].content[1].type: has a form',
  ]),
  [
    'redacted thoughts',
    said({ type: 'redacted_thinking', data: 'x' }),
    'messages[0].content[0].type: has a form',
  ],
  [
    'a call among server tools',
    said({ ...use('a'), toolset_name: 'browser' }),
    'messages[0].content[0].toolset_name',
  ],
  ['input that is not an object', said({ ...use('a'), input: 'x' }), 'messages[0].content[0].input'],
  [
    'text after a call',
    said(use('a'), text('then')),
    'messages[0].content[1]: must not follow a tool_use in the same turn',
  ],
  [
    'text in the turn after a call',
    { messages: [{ role: 'assistant', content: [use('a')] }, { role: 'assistant', content: 'b' }, user] },
    'messages[1].content: must not follow a tool_use',
  ],
  [
    'an unanswered call',
    { messages: [user, { role: 'assistant', content: [use('a')] }] },
    'messages[1].content: has a tool_use that must be answered',
  ],
  [
    'a document as a result',
    within(result('t', { content: [{ type: 'document' }] })),
    'messages[0].content[1].content[0].type',
  ],
])('Endpoints: what the shape cannot express is refused by its path: %s', (_, fields, expected) => {
  expect(shapeRefusal(() => shape(fields))).toContain(expected);
});

/** A request body for each path that the documentation lists as refused. */
const documented: Readonly<Record<string, object>> = {
  thread: { thread: { type: 'create' } },
  mcp_servers: { mcp_servers: [{ name: 'a' }] },
  container: { container: 'c' },
  fallbacks: { fallbacks: [{ model: 'b' }] },
  diagnostics: { diagnostics: { a: 1 } },
  inference_geo: { inference_geo: 'us' },
  billing_policy: { billing_policy: { a: 1 } },
  speed: { speed: 'fast' },
  service_tier: { service_tier: 'priority' },
  'tools[].type': { tools: [{ type: 'bash_20250124', name: 'bash' }] },
  'tools[].defer_loading': { tools: [{ ...tool, defer_loading: true }] },
  'tools[].input_examples': { tools: [{ ...tool, input_examples: [{}] }] },
  'tools[].allowed_callers': { tools: [{ ...tool, allowed_callers: ['code_execution_20260120'] }] },
  'context_management.edits[]': { context_management: { edits: [{ type: 'compact_20260112' }] } },
  'output_config.task_budget': { output_config: { task_budget: { total: 1 } } },
  'thinking.type': { thinking: { type: 'between_tools' } },
  'thinking.display': { thinking: { type: 'adaptive', display: 'summarized' } },
  'messages[].content[].source.type': within({
    type: 'image',
    source: { type: 'url', url: 'http://10.0.0.1/' },
  }),
  'messages[].content[].transformations': within({ ...image, transformations: { a: 1 } }),
  'messages[].content[].type': within({ type: 'document' }),
  'messages[].content[].citations': within({ ...text('a'), citations: [{ a: 1 }] }),
  'messages[].content[].caller': said({
    ...use('a'),
    caller: { type: 'code_execution_20260120', tool_id: 'x' },
  }),
  temperature: { temperature: 0.5 },
  top_p: { top_p: 0.5 },
  top_k: { top_k: 5 },
};

test('docs/api.md names what is refused, and each of its examples is refused', () => {
  const page = readFileSync(new URL('../../../docs/api.md', import.meta.url), 'utf8');
  const list = page.slice(
    page.indexOf('refused by name, because'),
    page.indexOf('Some engines would ignore'),
  );
  for (const [path, fields] of Object.entries(documented)) {
    expect(list).toContain(`\`${path}\``);
    const found = shapeRefusal(() => shape(fields, newer)).replace(/\[\d+\]/g, '[]');
    expect(found.startsWith(path), `${path}: ${found}`).toBe(true);
  }
});

test('a thread is refused with advice on how to avoid it', () => {
  for (const thread of [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }]) {
    const message = shapeRefusal(() => shape({ thread }, newer));
    expect(message).toMatch(/^thread: .*set `thread: false` in the tool runner/);
  }
});

test.each(['temperature', 'top_p', 'top_k'])('only newer API versions refuse %s', (field) => {
  expect(shapeRefusal(() => shape({ [field]: 1 }, newer))).toBe(
    `${field}: is not a field of this anthropic-version`,
  );
  expect(shape({ [field]: 1 }, older).asked.kind).toBe('chat');
  expect(shape({ [field]: 1 }, { ...older, version: undefined }).asked.kind).toBe('chat');
});

test('an unknown version is refused', () => {
  const unknown = { ...older, version: '2024-01-01' };
  const message = 'anthropic-version: must be one of 2023-06-01, 2026-10-21';
  expect(shapeRefusal(() => shape({}, unknown))).toBe(message);
  expect(shapeRefusal(() => shapeCountTokens(bodyOf({}), unknown))).toBe(message);
});

test('a count includes everything that makes up the prompt, and nothing of the answer', () => {
  const counted = count({
    system: 'Be brief.',
    tools: [tool],
    tool_choice: { type: 'auto' },
    thinking: { type: 'enabled', budget_tokens: 2000 },
  });
  expect(counted.body.messages).toHaveLength(2);
  expect(counted.maxTokens).toBe(0);
  for (const field of ['max_tokens', 'stream', 'temperature', 'stop_sequences', 'metadata']) {
    expect(shapeRefusal(() => count({ [field]: 1 }))).toBe(`${field}: is not a supported field`);
  }
});

const capturedCount = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/captures/${name}.json`, import.meta.url), 'utf8'));

test.each([
  ['vllm', '90-tokenize-messages', ['messages', 'model', 'tools']],
  ['sglang', '90-tokenize-messages', ['messages', 'model', 'tools']],
  ['llamacpp', '92-input-tokens-endpoint', ['messages', 'model', 'reasoning_effort', 'tools']],
] as const)(
  'a count by the engine equals that of its own messages endpoint: %s',
  (dialect, counter, fields) => {
    const chat = count({ tools: [tool], output_config: { effort: 'low' } });
    const body = toNodeBody(chat, dialect, { servedName: 'served', maxTokens: 1 });
    expect(Object.keys(tokenCountRequest(dialect, body)?.body ?? {}).sort()).toEqual(fields);
    const tokens = readTokenCount(dialect, capturedCount(`${dialect}/${counter}`)) ?? 0;
    expect(capturedCount(`${dialect}/89-count-tokens`)).toMatchObject(countTokensBody(tokens));
  },
);
