/** Tests that embeddings have the format that the client requested, whatever the node sent. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Refusal } from '../../../shared/decision/refusal.ts';
import { parseAnswer } from '../common/answer-json.ts';
import { answerFacts } from '../common/chat-parts.ts';
import { NodeFailure } from '../common/node-failure.ts';
import { rebuildEmbeddings as rebuild } from './rebuild-embeddings.ts';
import { type EmbeddingsContext, shapeEmbeddings } from './shape-embeddings.ts';

const ids = { unique: 'abc', createdSeconds: 0 };
const facts = answerFacts(shapeEmbeddings({ model: 'asked', input: '12345678' }).asked, ids, {
  maxTokens: 0,
  windowTokens: null,
});
const context: EmbeddingsContext = { inputs: 1, encoding: 'float' };
const rebuildEmbeddings = (given: unknown, one: EmbeddingsContext) => rebuild(given, facts, one);
/** The vector [1, -0.5] as little-endian bytes in base64. */
const base64 = 'AACAPwAAAL8=';
const answer = (...embeddings: unknown[]) => ({
  object: 'list',
  data: embeddings.map((embedding, index) => ({
    object: 'embedding',
    index,
    embedding,
    encoding_format: 'x',
  })),
  model: 'served',
  usage: { prompt_tokens: 4, total_tokens: 4, completion_tokens: 0 },
  id: 'embd-1',
});
const dataOf = (body: object) => (body as { data: { index: number; embedding: unknown }[] }).data;

test('Routing, rules: embeddings are rebuilt whole and do not reveal where they ran', () => {
  expect(rebuildEmbeddings(answer([1, -0.5]), context).body).toEqual({
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [1, -0.5] }],
    model: 'asked',
    usage: { prompt_tokens: 4, total_tokens: 4 },
  });
});

test.each([
  ['numbers requested, numbers given', 'float', [1, -0.5], [1, -0.5]],
  ['numbers requested, base64 given', 'float', base64, [1, -0.5]],
  ['base64 requested, base64 given', 'base64', base64, base64],
  ['base64 requested, numbers given', 'base64', [1, -0.5], base64],
] as const)('the encoding is converted to the requested one: %s', (_, encoding, given, expected) => {
  const { body } = rebuildEmbeddings(answer(given), { ...context, encoding });
  expect(dataOf(body)[0]?.embedding).toEqual(expected);
});

test('numbers converted to base64 and back are the same floats', () => {
  const float = fc.float({ noNaN: true, noDefaultInfinity: true });
  fc.assert(
    fc.property(fc.array(float, { minLength: 1, maxLength: 20 }), (vector) => {
      const there = rebuildEmbeddings(answer(vector), { ...context, encoding: 'base64' }).body;
      const back = rebuildEmbeddings(answer(dataOf(there)[0]?.embedding), context).body;
      expect(dataOf(back)[0]?.embedding).toEqual(vector);
    }),
  );
});

test('a captured answer with fewer dimensions is accepted if that many were requested', () => {
  const url = new URL(
    '../../../test/fixtures/captures/ollama/34-embeddings-dimensions.json',
    import.meta.url,
  );
  const given = JSON.parse(readFileSync(url, 'utf8'));
  expect(dataOf(rebuildEmbeddings(given, { ...context, dimensions: 8 }).body)[0]?.embedding).toHaveLength(8);
  expect(() => rebuildEmbeddings(given, { ...context, dimensions: 4 })).toThrow(NodeFailure);
});

test('embeddings come in the order of their inputs', () => {
  const given = { data: [1, 0].map((index) => ({ index, embedding: [index] })), usage: { prompt_tokens: 1 } };
  expect(dataOf(rebuildEmbeddings(given, { ...context, inputs: 2 }).body)).toEqual([
    { object: 'embedding', index: 0, embedding: [0] },
    { object: 'embedding', index: 1, embedding: [1] },
  ]);
});

test('usage that the node does not report is estimated and flagged', () => {
  const { usage } = rebuildEmbeddings({ data: answer([1]).data }, context);
  expect(usage).toEqual({ promptTokens: 2, completionTokens: 0, estimated: true });
});

test.each([
  ['an error', { error: { message: 'x' } }],
  ['no data', {}],
  ['too few', answer()],
  ['too many', answer([1], [1])],
  ['no index', { data: [{ embedding: [1] }] }],
  ['an empty vector', answer([])],
  ['a vector of texts', answer(['1'])],
  ['a number too large for a float', answer([1e300])],
  ['base64 of a partial float', answer('AACA')],
  ['text that is not base64', answer('***')],
  ['base64 with other characters in it', answer('AACA*Pw==')],
  ['null', answer(null)],
])('an answer that does not match the request is a failure of the node: %s', (_, given) => {
  expect(() => rebuildEmbeddings(given, context)).toThrow(NodeFailure);
});

test.each([
  ['null, as most engines write it', '[1,null]'],
  ['NaN, as Python writes it', '[NaN,1]'],
  ['infinite', '[1, -Infinity]'],
  ['a number too large for a double', '[1e400]'],
  ['base64', '"AADAfw=="'],
])('an embedding with NaN fails its request, which names the reason: %s', (_, embedding) => {
  const text = `{"data":[{"index":0,"embedding":${embedding}}],"model":"NaN"}`;
  const failed = () => rebuildEmbeddings(parseAnswer(Buffer.from(text)), context);
  expect(failed).toThrow(Refusal);
  expect(failed).toThrow(
    'This model does not accept this request: an embedding has a value that is not a number',
  );
});

test.each([
  ['the same index twice', { data: [0, 0].map((index) => ({ index, embedding: [1] })) }],
  ['vectors of different lengths', answer([1], [1, 2])],
])('answers to several inputs must fit together: %s', (_, given) => {
  expect(() => rebuildEmbeddings(given, { ...context, inputs: 2 })).toThrow(NodeFailure);
});

test.each([1e4, 1e9, 1e15])('usage of %d tokens for eight bytes is reduced to what is possible', (tokens) => {
  const given = {
    ...answer([1]),
    usage: { prompt_tokens: tokens, total_tokens: tokens, completion_tokens: 0 },
  };
  const { body, usage } = rebuildEmbeddings(given, context);
  expect(usage).toEqual({ promptTokens: 40, completionTokens: 0, clamped: true });
  expect(body).toMatchObject({ usage: { prompt_tokens: 40, total_tokens: 40 } });
});
