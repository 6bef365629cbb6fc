/**
 * Tests that JSON that is only passed on arrives exactly as the caller or the model wrote it, in every API and for every
 * engine.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Dialect } from '../../schemas/names.ts';
import {
  messagesSurface,
  rebuiltBy,
  responsesSurface,
  streamOf,
} from '../../test/support/surface-answers.ts';
import { parseAnswer } from './common/answer-json.ts';
import { answerFacts } from './common/chat-parts.ts';
import { keepTexts, writeJson } from './common/json-source.ts';
import { readJsonText } from './common/json-text.ts';
import { renderBody, renderCount } from './common/node-body.ts';
import { shapeOperation, wholeAnswer } from './surfaces.ts';

const dialects: readonly Dialect[] = ['vllm', 'sglang', 'llamacpp', 'ollama'];
/** JSON text with everything that JSON.parse and JSON.stringify would change. */
const hard =
  '{ "b":1481220477346119781,"a": [1e400,-0 , 1.0, 1.10E+2, 18446744073709551615],\n "2":"\\u00e9\\/\\ud83d\\ude00","1":{"x":"}]\\"" } }';

const target = { servedName: 'served', maxTokens: 5 };
const headers = { contentType: 'application/json', version: undefined };
type Kind = 'chat' | 'messages' | 'responses';

function shaped(kind: Kind, text: string, onWorker: boolean) {
  const bytes = Buffer.from(text);
  return shapeOperation({ kind }, onWorker ? bytes : readJsonText(bytes), headers);
}

const chat = '"model":"m","messages":[{"role":"user","content":"hi"}]';
const use = `{"type":"tool_use","id":"t","name":"f","input":${hard}}`;
const result = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}';
const requests: readonly (readonly [string, Kind, string])[] = [
  [
    'a tool’s parameters',
    'chat',
    `{${chat},"tools":[{"type":"function","function":{"name":"f","parameters":${hard}}}]}`,
  ],
  [
    'a schema',
    'chat',
    `{"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":${hard}}},${chat}}`,
  ],
  ['a tool', 'messages', `{${chat},"max_tokens":5,"tools":[{"input_schema":${hard},"name":"f"}]}`],
  [
    'a format',
    'messages',
    `{${chat},"max_tokens":5,"output_config":{"format":{"type":"json_schema","schema":${hard}}}}`,
  ],
  [
    'parameters',
    'responses',
    `{"model":"m","input":"hi","tools":[{"type":"function","name":"f","parameters":${hard}}]}`,
  ],
  [
    'a namespace',
    'responses',
    `{"model":"m","input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":${hard}}]}]}`,
  ],
  [
    'a format',
    'responses',
    `{"model":"m","input":"hi","text":{"format":{"type":"json_schema","name":"s","schema":${hard}}}}`,
  ],
];

test.each(requests)('%s on %s reaches the engine byte for byte', (_, kind, text) => {
  for (const onWorker of [true, false]) {
    const { asked } = shaped(kind, text, onWorker);
    for (const dialect of dialects) expect(renderBody(asked, dialect, target)).toContain(hard);
  }
});

test('the model’s earlier call reaches the engine byte for byte, also when tokens are counted', () => {
  const turn = `{"role":"assistant","content":[{"type":"text","text":"x"},${use}]}`;
  const text = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},${turn},${result}]}`;
  const { asked } = shaped('messages', text, false);
  for (const dialect of dialects) {
    const body = JSON.parse(String(renderBody(asked, dialect, target)));
    expect(body.messages[1].tool_calls[0].function.arguments).toBe(hard);
  }
  const [, , withTools] = requests[2] as (typeof requests)[number];
  const { asked: counted } = shaped('messages', withTools, false);
  if (counted.kind !== 'chat') throw new Error('is no chat');
  for (const dialect of ['vllm', 'sglang', 'llamacpp'] as const)
    expect(renderCount(counted, dialect, 'served')).toMatchObject({ body: expect.stringContaining(hard) });
});

test('biases reach the engine as written, in the caller’s order', () => {
  const bias = '{ "20":1.0,"3": -0, "100":1e1}';
  const { asked } = shaped('chat', `{${chat},"logit_bias":${bias}}`, false);
  expect(renderBody(asked, 'vllm', target)).toContain(bias);
});

test('a response repeats tools, schemas and metadata as the caller wrote them, on one line', () => {
  const metadata = '{"20":"a","3":"\\u00e9"}';
  const tools = `[{"type":"function","name":"f","parameters":${hard}}]`;
  const format = `{"type":"json_schema","name":"s","schema":${hard}}`;
  const text = `{"model":"m","input":"hi","metadata":${metadata},"tools":${tools},"text":{"format":${format}}}`;
  const { asked, form } = shaped('responses', text, true);
  const facts = answerFacts(asked, { unique: 'u', createdSeconds: 1 }, { maxTokens: 5, windowTokens: null });
  const answer = { choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }] };
  // Use a copy of the form, as if another thread had sent it.
  const { body } = wholeAnswer(answer, facts, structuredClone(form) as NonNullable<typeof form>);
  const oneLine = hard.replace('\n', ' ');
  expect(body).toContain(`"metadata":${metadata}`);
  expect(body.split(oneLine)).toHaveLength(3);
});

const called = (args: string) => ({
  choices: [
    {
      index: 0,
      message: { tool_calls: [{ function: { name: 'f', arguments: args } }] },
      finish_reason: 'tool_calls',
    },
  ],
});

test.each([
  ['every difficult form', hard],
  ['a repeated name', '{"a":1,"a":2}'],
  ['__proto__', '{"__proto__":{"a":1},"constructor":2}'],
  ['an escaped lone surrogate', '{"a":"\\ud800"}'],
])('a tool’s input reaches the client byte for byte: %s', (_, args) => {
  const tools = [{ name: 'f', input_schema: { type: 'object' } }];
  const { asked, form } = shapeOperation(
    { kind: 'messages' },
    Buffer.from(JSON.stringify({ ...messagesSurface.body({}), tools })),
    headers,
  );
  const facts = answerFacts(asked, { unique: 'u', createdSeconds: 1 }, { maxTokens: 5, windowTokens: null });
  const answer = parseAnswer(Buffer.from(JSON.stringify(called(args))));
  expect(wholeAnswer(answer, facts, form as NonNullable<typeof form>).body).toContain(`"input":${args}`);
  const stream = streamOf(messagesSurface, { fields: { tools } });
  const [head, tail] = [args.slice(0, 9), args.slice(9)];
  const deltas = [head, tail].map((piece, n) => ({
    choices: [
      {
        index: 0,
        delta: { tool_calls: [{ index: 0, function: { ...(n === 0 && { name: 'f' }), arguments: piece } }] },
      },
    ],
  }));
  const frames = deltas.flatMap((delta) => stream.push(JSON.stringify(delta))).join('');
  const streamed = [...frames.matchAll(/"partial_json":("(?:[^"\\]|\\.)*")/g)].map(([, text]) =>
    JSON.parse(text ?? ''),
  );
  expect(streamed.join('')).toBe(args);
  const fn = [{ type: 'function', name: 'f' }];
  const { body } = rebuiltBy(responsesSurface, called(args), { fields: { tools: fn } });
  expect(body).toMatchObject({ output: [{ arguments: args }] });
});

test('an unescaped lone surrogate is escaped, because UTF-8 cannot hold it', () => {
  const tools = [{ name: 'f', input_schema: { type: 'object' } }];
  const { body } = rebuiltBy(messagesSurface, called('{"a":"x\ud800"}'), { fields: { tools } });
  expect(body).toMatchObject({ content: [{ input: { a: 'x\ud800' } }] });
});

test('the source text at each path is kept, however the surrounding JSON is written', () => {
  const space = fc.stringMatching(/^[ \n\r\t]{0,2}$/);
  const json = fc
    .tuple(fc.jsonValue({ maxDepth: 3 }), fc.nat(2))
    .map(([value, indent]) => JSON.stringify(value, null, indent));
  const object = fc
    .tuple(json, space)
    .map(([value, blank]) => `{${blank}"in\\u0041":${blank}${value}${blank}}`);
  fc.assert(
    fc.property(object, json, space, fc.array(object), (kept, other, blank, list) => {
      const text = `${blank}{"__":${other}${blank},${blank}"\\u0061"${blank}:${blank}${kept},"l":[${list.join(`${blank},${blank}`)}]${blank}}`;
      if (text.includes('__proto__')) return;
      const value = JSON.parse(text);
      keepTexts(text, value, { a: 'kept', l: { '*': 'kept' } });
      expect(writeJson(value.a)).toBe(kept);
      expect(value.l.map(writeJson)).toEqual(list);
      expect(JSON.parse(writeJson(value))).toEqual(value);
    }),
  );
});
