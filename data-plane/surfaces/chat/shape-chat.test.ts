/** Tests the strict schemas with each field, each kind of invalid body, and the defaults of real clients. */

import { expect, test } from 'vitest';
import { chatRequestSchema } from '../../../schemas/api/openai.ts';
import { chatExamples, chatRefused } from '../../../test/support/chat-examples.ts';
import { noOpFields } from '../../../test/support/no-op-fields.ts';
import { shapeRefusal } from '../../../test/support/shape-refusal.ts';
import { lowerTokenBound } from '../common/asked.ts';
import { shapeEmbeddings } from '../embeddings/shape-embeddings.ts';
import { shapeChat } from './shape-chat.ts';

const user = { role: 'user', content: 'hi' };
const tool = { type: 'function', function: { name: 'get_time', parameters: { type: 'object' } } };

const chat = (fields: object) => shapeChat({ model: 'echo', messages: [user], ...fields }).asked;
const chatWith = (...messages: object[]) => chat({ messages });
const embed = (fields: object) => shapeEmbeddings({ model: 'echo', input: 'hi', ...fields }).asked;

test('a minimal request is a non-streamed chat with one choice and no limit', () => {
  expect(chat({})).toEqual({
    kind: 'chat',
    model: 'echo',
    stream: false,
    maxTokens: undefined,
    choices: 1,
    logprobs: false,
    hasSchema: false,
    needs: [],
    body: { messages: [user] },
    promptBytes: 2 + 32 + 512,
    likelyTokens: 9,
    textBytes: 2,
  });
  expect(lowerTokenBound(chat({}))).toBe(1);
});

test.each([
  ...Object.entries(chatExamples).flatMap(([field, values]) => values.map((value) => [field, value])),
  ['tools', [tool]],
  ['tools', [{ type: 'function', function: { name: 'f', strict: false, description: 'x' } }]],
])('the field %s is carried unchanged: %j', (field, value) => {
  expect(chat({ [String(field)]: value }).body).toEqual({ messages: [user], [String(field)]: value });
});

test.each(
  Object.entries(chatRefused).flatMap(([field, values]) => values.map((value) => [field, value] as const)),
)('Errors 2: an invalid value of %s is refused by the field’s name: %j', (field, value) => {
  const more = field === 'top_logprobs' ? { logprobs: true } : {};
  expect(shapeRefusal(() => chat({ ...more, [field]: value }))).toMatch(new RegExp(`^${field}\\b`));
});

test('a setting that equals its default is not carried', () => {
  expect(chat({ n: 1 })).toEqual(chat({}));
});

test.each([
  { fields: { stream: true }, part: { stream: true } },
  { fields: { max_tokens: 5 }, part: { maxTokens: 5 } },
  { fields: { max_completion_tokens: 7 }, part: { maxTokens: 7 } },
  { fields: { max_tokens: 9, max_completion_tokens: 7 }, part: { maxTokens: 7 } },
  { fields: { n: 3 }, part: { choices: 3 } },
  { fields: { tools: [tool] }, part: { needs: ['tools'] } },
  { fields: { tools: [tool], parallel_tool_calls: false }, part: { needs: ['tools', 'single_tool_call'] } },
  { fields: { tools: [tool], parallel_tool_calls: true }, part: { needs: ['tools'] } },
  { fields: { tools: [tool], tool_choice: 'required' }, part: { body: { tool_choice: 'required' } } },
  { fields: { messages: [user, { role: 'assistant', content: 'So' }] }, part: { needs: ['prefill'] } },
  {
    fields: {
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] },
      ],
    },
    part: { needs: ['images'] },
  },
])('facts for the dialects are stored next to the body: $fields', ({ fields, part }) => {
  const request = chat(fields);
  expect(request).toMatchObject(part);
  for (const name of ['model', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens']) {
    expect(request.body).not.toHaveProperty(name);
  }
});

test.each([true, false])('usage in a stream is sent only if requested: %s', (include_usage) => {
  const fields = { model: 'echo', messages: [user], stream: true, stream_options: { include_usage } };
  expect(shapeChat(fields).context).toEqual({ includeUsage: include_usage });
});

test.each([
  ['top_k', 1, 'top_k: is not a supported field'],
  ['n_predict', -1, 'n_predict: is not a supported field'],
  ['chat_template', 'x', 'chat_template: is not a supported field'],
  ['extra_body', {}, 'extra_body: is not a supported field'],
  ['metadata', { a: 'b' }, 'metadata: is not supported'],
  ['audio', { voice: 'x' }, 'audio: is not supported'],
  ['prediction', { type: 'content' }, 'prediction: is not supported'],
  ['web_search_options', { a: 1 }, 'web_search_options: is not supported'],
  ['moderation', { a: 1 }, 'moderation: is not supported'],
  ['functions', [{ name: 'f' }], 'functions: is not supported'],
  ['function_call', 'auto', 'function_call: is not supported'],
  ['store', true, 'store: must be one of false'],
  ['service_tier', 'flex', 'service_tier: must be one of "auto", "default"'],
  ['verbosity', 'low', 'verbosity: must be one of "medium"'],
  ['modalities', ['text', 'audio'], 'modalities: must have at most 1 entries'],
  ['modalities', ['audio'], 'modalities[0]: must be one of "text"'],
  ['user', 5, 'user: must be of type string'],
  ['model', '', 'model: must not be empty'],
  ['messages', [], 'messages: must not be empty'],
  ['messages', 'hi', 'messages: must be of type array'],
  ['temperature', 2.1, 'temperature: must be at most 2'],
  ['temperature', '1', 'temperature: must be of type number'],
  ['top_p', -0.1, 'top_p: must be at least 0'],
  ['frequency_penalty', 3, 'frequency_penalty: must be at most 2'],
  ['presence_penalty', -3, 'presence_penalty: must be at least -2'],
  ['max_tokens', 0, 'max_tokens: must be at least 1'],
  ['max_tokens', -1, 'max_tokens: must be at least 1'],
  ['max_completion_tokens', 1.5, 'max_completion_tokens: must be of type int'],
  ['stop', ['a', 'b', 'c', 'd', 'e'], 'stop: has a form that is not supported'],
  ['seed', 0.5, 'seed: must be of type int'],
  ['n', 0, 'n: must be at least 1'],
  ['n', 129, 'n: must be at most 128'],
  ['top_logprobs', 21, 'top_logprobs: must be at most 20'],
  ['top_logprobs', 2, 'top_logprobs: needs logprobs'],
  ['logit_bias', { the: 1 }, 'logit_bias: must map token ids to -100 to 100'],
  ['logit_bias', { '1': 101 }, 'logit_bias: must map token ids to -100 to 100'],
  ['response_format', { type: 'grammar' }, 'response_format.type: has a form that is not supported'],
  ['response_format', { type: 'json_schema' }, 'response_format.json_schema: is required'],
  ['tools', [{ type: 'custom', custom: {} }], 'tools[0].type: must be one of "function"'],
  [
    'tools',
    [{ type: 'function', function: { name: 'a b' } }],
    'tools[0].function.name: must be 1 to 64 letters',
  ],
  ['tool_choice', 'required', 'tool_choice: needs tools'],
  ['tool_choice', 'any', 'tool_choice: has a form that is not supported'],
  ['tool_choice', { type: 'allowed_tools' }, 'tool_choice.type: must be one of "function"'],
  ['reasoning_effort', 'ultra', 'reasoning_effort: must be one of "none"'],
  ['stream', 'yes', 'stream: must be of type boolean'],
  ['stream_options', { include_usage: true }, 'stream_options: needs stream'],
])('Errors 2: the field %s is refused with its path: %j', (field, value, message) => {
  expect(shapeRefusal(() => chat({ [field]: value }))).toContain(message);
});

test('the default tool choice is left out if there are no tools', () => {
  for (const choice of ['auto', 'none']) expect(chat({ tool_choice: choice })).toEqual(chat({}));
});

test('Errors 2: a named tool must be among the tools', () => {
  const named = (name: string) => ({ tools: [tool], tool_choice: { type: 'function', function: { name } } });
  expect(chat(named('get_time')).body.tool_choice).toEqual(named('get_time').tool_choice);
  expect(shapeRefusal(() => chat(named('other')))).toBe(
    'tool_choice.function.name: must be one of the tools',
  );
});

const png = { url: 'data:image/png;base64,AAAA' };
const call = { id: 'call_1', type: 'function', function: { name: 'get_time', arguments: '{}' } };

test.each([
  ['developer', { role: 'developer', content: 'x' }],
  ['a system message in parts', { role: 'system', content: [{ type: 'text', text: 'x' }] }],
  ['a user with a name', { role: 'user', content: 'x', name: 'ana' }],
  ['an inline image', { role: 'user', content: [{ type: 'image_url', image_url: png }] }],
  ['an assistant’s call', { role: 'assistant', content: 'x', tool_calls: [call] }],
  ['tool', { role: 'tool', tool_call_id: 'call_1', content: '12:00' }],
  ['thoughts under one name', { role: 'assistant', content: 'x', reasoning: 'y' }],
  ['thoughts under the other name', { role: 'assistant', content: 'x', reasoning_content: 'y' }],
])('a message is carried unchanged: %s', (_, message) => {
  expect(chatWith(message, user).body.messages).toEqual([message, user]);
});

test.each([
  ['role', { role: 'function', content: 'x' }, 'messages[1].role: has a form that is not supported'],
  ['no role', { content: 'x' }, 'messages[1].role: is required'],
  ['no content', { role: 'user' }, 'messages[1].content: is required'],
  ['empty content', { role: 'user', content: [] }, 'messages[1].content: must not be empty'],
  ['an unknown field', { ...user, bogus: null }, 'messages[1].bogus: is not a supported field'],
  [
    'an image by URL',
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] },
    'messages[1].content[0].image_url.url: must be a data: URL',
  ],
  [
    'an image by file id',
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }] },
    'messages[1].content[0].image_url.url: must be a data: URL',
  ],
  [
    'audio',
    {
      role: 'user',
      content: [
        { type: 'text', text: 'x' },
        { type: 'input_audio', input_audio: {} },
      ],
    },
    'messages[1].content[1].type: has a form that is not supported',
  ],
  [
    'an image in a system message',
    { role: 'system', content: [{ type: 'image_url', image_url: png }] },
    'messages[1].content[0].type',
  ],
  [
    'a refusal that is not a string',
    { role: 'assistant', content: 'x', refusal: 7 },
    'messages[1].refusal: must be of type string',
  ],
  [
    'audio from the assistant',
    { role: 'assistant', content: 'x', audio: { id: 'a' } },
    'messages[1].audio: is not',
  ],
  [
    'function_call',
    { role: 'assistant', content: 'x', function_call: { name: 'f' } },
    'messages[1].function_call',
  ],
  [
    'a tool message without its call',
    { role: 'tool', content: 'x' },
    'messages[1].tool_call_id: is required',
  ],
  [
    'arguments not in a string',
    { role: 'assistant', tool_calls: [{ ...call, function: { name: 'f', arguments: {} } }] },
    'messages[1].tool_calls[0].function.arguments: must be of type string',
  ],
  [
    'thoughts given twice',
    { role: 'assistant', content: 'x', reasoning: 'a', reasoning_content: 'b' },
    'messages[1].reasoning: must not be given together with reasoning_content',
  ],
])('Errors 2: a message is refused with its path: %s', (_, message, text) => {
  expect(shapeRefusal(() => chatWith(user, message, user))).toContain(text);
});

test('Errors 2: a tool call must be answered before the model continues', () => {
  expect(shapeRefusal(() => chatWith(user, { role: 'assistant', tool_calls: [call] }))).toBe(
    'messages[1].tool_calls: must be answered by a message',
  );
});

test('a fault far down a long list is named by its own index', () => {
  const messages = Array.from({ length: 200 }, (_, at) => (at === 130 ? { role: 'user', content: 5 } : user));
  expect(shapeRefusal(() => chatWith(...messages))).toBe(
    'messages[130].content: has a form that is not supported',
  );
});

test('the gateway’s own answer may be sent back, and its empty fields are dropped', () => {
  const echo = {
    role: 'assistant',
    content: 'ok',
    refusal: null,
    annotations: [],
    tool_calls: [],
    audio: null,
  };
  const sent = JSON.stringify(chatWith(user, echo, user).body);
  expect(JSON.parse(sent)).toEqual({ messages: [user, { role: 'assistant', content: 'ok' }, user] });
});

/** A valid value for each documented field that has no effect. */
const noOpExamples: Readonly<Record<string, object>> = {
  user: { user: 'ana' },
  safety_identifier: { safety_identifier: 'x' },
  prompt_cache_retention: { prompt_cache_retention: '24h' },
  prompt_cache_options: { prompt_cache_options: { a: 1 } },
  service_tier: { service_tier: 'auto' },
  store: { store: false },
  verbosity: { verbosity: 'medium' },
  modalities: { modalities: ['text'] },
  'stream_options.include_obfuscation': { stream: true, stream_options: { include_obfuscation: false } },
  'messages[].content[].prompt_cache_breakpoint': {
    messages: [{ role: 'user', content: [{ type: 'text', text: 'x', prompt_cache_breakpoint: true }] }],
  },
  'messages[].content[].image_url.detail': {
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { ...png, detail: 'low' } }] }],
  },
  'messages[].tool_calls[].index': {
    messages: [
      { role: 'assistant', tool_calls: [{ ...call, index: 0 }] },
      { role: 'tool', tool_call_id: 'c', content: 'x' },
    ],
  },
};

test.each(noOpFields.chat)('the no-op $path is accepted and goes no further', ({ path }) => {
  const example = noOpExamples[path];
  expect(example).toBeDefined();
  const last = path.split('.').at(-1) ?? '';
  const sent = JSON.stringify(chat(example ?? {}));
  expect(sent).not.toContain(`"${last}":`);
});

test('exactly the fields that are accepted without effect are documented', () => {
  const documented = noOpFields.chat.map(({ path }) => path);
  expect(Object.keys(noOpExamples).sort()).toEqual([...documented].sort());
  expect(documented.filter((path) => !path.includes('.'))).toEqual(
    Object.keys(chatRequestSchema.shape).filter((name) => name in noOpExamples),
  );
});

test.each([
  { input: 'hi', inputs: 1, tokenInput: false, promptBytes: 2 + 32 },
  { input: ['a', 'long one'], inputs: 2, tokenInput: false, promptBytes: 8 + 32 },
  { input: [1, 2, 3], inputs: 1, tokenInput: true, promptBytes: 3 + 32 },
  { input: [[1, 2], [3]], inputs: 2, tokenInput: true, promptBytes: 2 + 32 },
])('embeddings take $input as $inputs inputs', ({ input, ...facts }) => {
  expect(embed({ input })).toMatchObject({
    kind: 'embeddings',
    encoding: 'float',
    body: { input },
    ...facts,
  });
});

test('embeddings carry encoding and dimensions, and drop the user', () => {
  const request = embed({ encoding_format: 'base64', dimensions: 8, user: 'ana' });
  expect(request).toMatchObject({ encoding: 'base64', dimensions: 8 });
  expect(JSON.stringify(request)).not.toContain('ana');
});

test.each([
  ['input', '', 'input: must not be empty'],
  ['input', [], 'input: must not be empty'],
  ['input', [-1], 'input[0]: must be a text, or a token id (an integer of at least 0)'],
  ['input', ['a', 1], 'input[1]: must be a text, or a token id (an integer of at least 0)'],
  ['input', ['a', ''], 'input[1]: must not be empty'],
  ['input', [1, -1], 'input'],
  ['input', [1, 'a'], 'input'],
  ['input', [[]], 'input'],
  ['input', Array.from({ length: 2049 }, () => 'a'), 'input'],
  ['encoding_format', 'int8', 'encoding_format: must be one of "float", "base64"'],
  ['dimensions', 0, 'dimensions: must be at least 1'],
  ['truncate', true, 'truncate: is not a supported field'],
])('Errors 2: embeddings refuse %s: %j', (field, value, message) => {
  expect(shapeRefusal(() => embed({ [field]: value }))).toContain(message);
});

test('the bound of a prompt counts every text once, and tools’ JSON twice', () => {
  const plain = chat({}).promptBytes;
  const tools = [tool];
  expect(chat({ tools }).promptBytes - plain).toBe(2 * JSON.stringify(tools).length);
  expect(chatWith({ role: 'user', content: 'hié' }).promptBytes - plain).toBe(2);
  expect(
    chatWith(user, { role: 'assistant', content: 'ok', reasoning: 'abc' }, user).promptBytes - plain,
  ).toBe(2 * 32 + 2 + 3 + 2);
});

const earlier = (called: object) => [
  user,
  { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', ...called } }] },
  { role: 'tool', tool_call_id: 'c', content: 'ok' },
];

test.each([[{ arguments: '' }], [{ arguments: ' ' }], [{ arguments: null }], [{}]])(
  'an earlier call without arguments reaches the node with an empty object: %j',
  (called) => {
    expect(chat({ messages: earlier(called) }).body.messages[1]).toMatchObject({
      tool_calls: [{ function: { arguments: '{}' } }],
    });
  },
);

test.each(['{"q": "a', '{}{}', "{'q': 1}", '{"q":NaN}', `[${'['.repeat(64)}`])(
  'Errors 2: an earlier call’s arguments that no engine can read are refused by their path: %s',
  (text) => {
    expect(shapeRefusal(() => chat({ messages: earlier({ arguments: text }) }))).toMatch(
      /^messages\[1\]\.tool_calls\[0\]\.function\.arguments: /,
    );
  },
);

test.each([
  'data:image/png;base64,AAAA\r\nx',
  'data:image/svg+xml;base64,AAAA',
  'data:image/png;base64,',
  'data:image/png;base64,AA-_',
  'data:image/png;base64,A=A=',
  'https://a/b.png',
])('Errors 2: an image that is not base64 pixel data is refused: %j', (url) => {
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }];
  expect(shapeRefusal(() => chat({ messages }))).toMatch(
    /^messages\[0\]\.content\[0\]\.image_url\.url: must be/,
  );
});
