/** Tests the bodies for each engine: every field on which engines differ must be supported, mapped or refused. */
import { expect, test } from 'vitest';
import type { Dialect } from '../../../schemas/names.ts';
import { chatExamples } from '../../../test/support/chat-examples.ts';
import { shapeRefusal } from '../../../test/support/shape-refusal.ts';
import { shapeChat } from '../chat/shape-chat.ts';
import { shapeEmbeddings } from '../embeddings/shape-embeddings.ts';
import { chatFieldGrants } from './chat-fields.ts';
import { toNodeBody } from './node-body.ts';

const all: readonly Dialect[] = ['vllm', 'sglang', 'llamacpp', 'ollama'];
const user = { role: 'user', content: 'hi' };
const tool = (name: string) => ({ type: 'function', function: { name } });
const tools = [tool('get_time'), tool('set_unit')];
const named = { type: 'function', function: { name: 'get_time' } };
const image = {
  role: 'user',
  content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }],
};

function sent(dialect: Dialect, fields: object, target: object = {}): Record<string, unknown> {
  const { asked } = shapeChat({ model: 'asked', messages: [user], ...fields });
  return JSON.parse(
    JSON.stringify(toNodeBody(asked, dialect, { servedName: 'served', maxTokens: 64, ...target })),
  );
}

function sentEmbeddings(dialect: Dialect, fields: object): Record<string, unknown> {
  const { asked } = shapeEmbeddings({ model: 'asked', input: 'hi', ...fields });
  return JSON.parse(JSON.stringify(toNodeBody(asked, dialect, { servedName: 'served', maxTokens: 1 })));
}

const plain = { model: 'served', messages: [user], max_tokens: 64, stream: false };

test.each(all)('%s always receives the served name and a token limit', (dialect) => {
  const both = dialect === 'ollama' ? {} : { max_completion_tokens: 64 };
  expect(sent(dialect, {})).toEqual({ ...plain, ...both });
  expect(sent(dialect, { max_completion_tokens: 7 }, { maxTokens: 7 })).toMatchObject({ max_tokens: 7 });
});

test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
  'a limit of %d tokens is a fault of the gateway',
  (maxTokens) => {
    expect(() => sent('ollama', {}, { maxTokens })).toThrow(RangeError);
  },
);

test.each(all)('%s is asked for usage in every stream, and only there', (dialect) => {
  expect(sent(dialect, { stream: true })).toMatchObject({
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(sent(dialect, {})).not.toHaveProperty('stream_options');
});

const settings = Object.entries(chatExamples).flatMap(([field, values]) =>
  values.flatMap((value) =>
    all.map((dialect) => ({ field: field as keyof typeof chatExamples, value, dialect })),
  ),
);

test.each(settings)(
  'Errors 2: $field of $value is honoured by $dialect, or refused',
  ({ field, value, dialect }) => {
    const more = field === 'top_logprobs' ? { logprobs: true } : {};
    const grant = chatFieldGrants[field][dialect];
    if (grant === undefined || grant.values?.includes(value) === false)
      expect(() => sent(dialect, { [field]: value, ...more })).toThrow(
        `${field}: is not supported for this model`,
      );
    else expect(sent(dialect, { [field]: value, ...more })[grant.name ?? field]).toEqual(value);
  },
);

test('a setting that a dialect does not support is refused even if it came through another API', () => {
  const request = shapeChat({ model: 'asked', messages: [user] }).asked;
  const asked = { ...request, body: { ...request.body, thinking_budget: 40 } };
  const target = { servedName: 'served', maxTokens: 64 };
  expect(toNodeBody(asked, 'vllm', target)).toMatchObject({ thinking_token_budget: 40 });
  expect(() => toNodeBody(asked, 'sglang', target)).toThrow(
    'thinking_budget: is not supported for this model',
  );
});

/** Each row contains the content of an earlier answer, then the message that every engine must get. */
test.each<[string, object, object]>([
  ['a refusal alone', { content: null, refusal: 'I must not.' }, { content: 'I must not.' }],
  ['a refusal with an empty text', { content: '', refusal: 'I must not.' }, { content: 'I must not.' }],
  [
    'a refusal after a text',
    { content: 'Well.', refusal: 'I must not.' },
    { content: 'Well.\n\nI must not.' },
  ],
  [
    'a refusal after parts',
    { content: [{ type: 'text', text: 'Well.' }], refusal: 'I must not.' },
    {
      content: [
        { type: 'text', text: 'Well.' },
        { type: 'text', text: 'I must not.' },
      ],
    },
  ],
])('%s that the client sends back reaches the model as text', (_name, message, expected) => {
  for (const dialect of all) {
    const body = sent(dialect, { messages: [user, { role: 'assistant', ...message }, user] });
    expect(body['messages']).toEqual([user, { role: 'assistant', ...expected }, user]);
  }
});

type ExpectedBody = object | 'refused';

const required = { tools: [tool('get_time')], tool_choice: 'required' };
const none = { tools, tool_choice: 'none' };
const any = { tools, tool_choice: 'required' };
const one = { tools, tool_choice: named };
const seen = { messages: [image] };
const continued = { messages: [user, { role: 'assistant', content: 'So' }] };
const continuing = { continue_final_message: true };
const from = (role: string) => ({ messages: [{ role, content: 'x' }, user] });
const system = from('system');
const thought = (name: string) => ({
  messages: [user, { role: 'assistant', content: 'a', [name]: 'b' }, user],
});
const [short, long] = [thought('reasoning'), thought('reasoning_content')];

/**
 * Each row contains a feature's name, the request, the path named in a refusal, and the body for each dialect in the order of
 * `all`.
 */
const rows: readonly (readonly [string, object, string, readonly ExpectedBody[]])[] = [
  ['tool_choice none', none, 'tool_choice', [none, none, none, 'refused']],
  ['tool_choice required', any, 'tool_choice', [any, any, any, 'refused']],
  ['a named tool', one, 'tool_choice', [one, required, required, 'refused']],
  ['an image', seen, 'messages[0].content[0]', [seen, seen, seen, 'refused']],
  [
    'a final assistant message',
    ...([continued, 'messages[1]'] as const),
    [{ ...continuing, add_generation_prompt: false }, continuing, continued, 'refused'],
  ],
  ['developer', from('developer'), '', [system, system, system, system]],
  ['thoughts named reasoning', short, '', [short, long, long, short]],
  ['thoughts named reasoning_content', long, '', [short, long, long, short]],
];

test.each(
  rows.flatMap(([feature, fields, path, expected]) =>
    all.map((dialect, at) => [feature, dialect, expected[at] as ExpectedBody, fields, path] as const),
  ),
)('Errors 2: %s on %s is honoured, mapped or refused: %j', (_feature, dialect, expected, fields, path) => {
  if (expected !== 'refused') expect(sent(dialect, fields)).toMatchObject(expected);
  // The message must name the field, but neither the engine nor its location.
  else expect(shapeRefusal(() => sent(dialect, fields))).toBe(`${path}: is not supported for this model`);
});

test('only engines that respect parallel_tool_calls receive it, and it is never true', () => {
  const single = { tools, parallel_tool_calls: false };
  expect(sent('vllm', single)).toMatchObject({ parallel_tool_calls: false });
  expect(sent('sglang', single)).toMatchObject({ parallel_tool_calls: false });
  expect(sent('llamacpp', single)).not.toHaveProperty('parallel_tool_calls');
  expect(sent('ollama', single)).not.toHaveProperty('parallel_tool_calls');
  expect(sent('vllm', { tools, parallel_tool_calls: true })).not.toHaveProperty('parallel_tool_calls');
});

test('an image goes to Ollama only if the model is known to accept images', () => {
  expect(sent('ollama', { messages: [image] }, { seesImages: true })['messages']).toEqual([image]);
});

test('the default tool choice is not sent to an engine without tool choices', () => {
  expect(sent('ollama', { tools, tool_choice: 'auto' })).not.toHaveProperty('tool_choice');
  expect(sent('vllm', { tools, tool_choice: 'auto' })).toMatchObject({ tool_choice: 'auto' });
});

test.each(all)('%s receives a continued message only if the client sent one', (dialect) => {
  expect(sent(dialect, {})).not.toHaveProperty('continue_final_message');
});

test.each(all)('%s receives no null and no field that the client left empty', (dialect) => {
  const call = { id: 'c', type: 'function', function: { name: 'get_time', arguments: '{}' } };
  const body = sent(dialect, {
    n: null,
    stop: null,
    tools: [],
    tool_choice: 'none',
    response_format: null,
    messages: [
      user,
      { role: 'assistant', content: null, refusal: null, tool_calls: [call], audio: null, name: null },
      { role: 'tool', tool_call_id: 'c', content: 'x' },
      { role: 'assistant', content: null, annotations: [] },
      user,
    ],
  });
  expect(JSON.stringify(body)).not.toContain('null');
  expect(body).not.toHaveProperty('tools');
  expect(body).not.toHaveProperty('tool_choice');
  const messages = body['messages'] as unknown[];
  expect(messages[1]).toEqual({ role: 'assistant', tool_calls: [call] });
  expect(messages[3]).toEqual({ role: 'assistant', content: '' });
});

test.each([
  ['vllm', { dimensions: 8 }, { dimensions: 8 }],
  ['sglang', { dimensions: 8 }, { dimensions: 8 }],
  ['llamacpp', { dimensions: 8 }, 'dimensions'],
  ['ollama', { dimensions: 8 }, { dimensions: 8 }],
  ['vllm', { input: [1, 2] }, { input: [1, 2] }],
  ['sglang', { input: [[1], [2]] }, { input: [[1], [2]] }],
  ['llamacpp', { input: [1, 2] }, { input: [1, 2] }],
  ['ollama', { input: [1, 2] }, 'input'],
  ['ollama', { input: ['a', 'b'], encoding_format: 'base64' }, { encoding_format: 'base64' }],
] as [Dialect, object, object | string][])(
  '%s receives the embeddings field %j as %j',
  (dialect, fields, expected) => {
    if (typeof expected === 'string') {
      expect(() => sentEmbeddings(dialect, fields)).toThrow(`${expected}: is not supported for this model`);
    } else {
      expect(sentEmbeddings(dialect, fields)).toEqual({
        model: 'served',
        input: 'hi',
        encoding_format: 'float',
        ...fields,
        ...expected,
      });
    }
  },
);
