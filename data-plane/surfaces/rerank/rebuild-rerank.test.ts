/**
 * Tests for every engine that clients get the node's scores in the same order, or that the node counts as failed. Nothing
 * else of the node's answer may be passed on.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { answerFacts } from '../common/chat-parts.ts';
import { NodeFailure } from '../common/node-failure.ts';
import { rebuildRerank } from './rebuild-rerank.ts';
import { shapeRerank } from './shape-rerank.ts';

const least = { model: 'asked', query: 'the well', documents: ['a', 'b', 'c', 'd'] };

function rebuild(answer: unknown, more: object = {}) {
  const { asked, context } = shapeRerank({ ...least, ...more });
  const facts = answerFacts(
    asked,
    { unique: 'abc', createdSeconds: 0 },
    { maxTokens: 0, windowTokens: null },
  );
  const { body, usage } = rebuildRerank(answer, facts, context);
  return { body: body as { results: { index: number; relevance_score: number }[] }, usage };
}

const usage = { prompt_tokens: 20, total_tokens: 20 };
const score = (index: number, relevance_score: number) => ({ index, relevance_score });
const given = [score(0, 0.1), score(1, 7.7), score(2, -11), score(3, 7.7)];

const forms = {
  vllm: {
    ...{ id: 'rerank-1', model: 'served', usage },
    results: given.map((one) => ({ ...one, document: { text: 'theirs', multi_modal: null } })),
  },
  sglang: given.map(({ index, relevance_score }) => ({
    ...{ index, score: relevance_score, document: 'theirs', meta_info: { prompt_tokens: 5 } },
  })),
  llamacpp: { model: 'served', object: 'list', usage, results: given },
};

test.each(Object.entries(forms))(
  'Routing, rules: an answer of %s is sorted and does not reveal where it ran',
  (_, answer) => {
    expect(rebuild(answer)).toEqual({
      body: {
        id: 'rerank-abc',
        object: 'list',
        model: 'asked',
        results: [score(1, 7.7), score(3, 7.7), score(0, 0.1), score(2, -11)],
        usage,
        meta: {},
      },
      usage: { promptTokens: 20, completionTokens: 0 },
    });
  },
);

test('the result is the same if an engine does not sort, or sorts in another order', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(given, { minLength: 4 }), (results) => {
      expect(rebuild({ ...forms.llamacpp, results })).toEqual(rebuild(forms.llamacpp));
    }),
  );
});

test('the requested number of results is returned, with our own documents if requested', () => {
  const { body } = rebuild(forms.vllm, { top_n: 2, return_documents: true });
  expect(body.results).toEqual([
    { ...score(1, 7.7), document: { text: 'b' } },
    { ...score(3, 7.7), document: { text: 'd' } },
  ]);
});

test.each([
  ['taken from the total, as old vLLM reports it', { total_tokens: 9 }, { promptTokens: 9 }],
  ['estimated if nothing is reported', undefined, { promptTokens: 9, estimated: true }],
  ['no more than the request can use', { prompt_tokens: 1e9 }, { promptTokens: 36 + 4 * 256, clamped: true }],
])('usage is %s', (_, reported, found) => {
  expect(rebuild({ results: given, usage: reported }).usage).toEqual({ completionTokens: 0, ...found });
});

test.each([
  ['an error', { error: { message: 'x' } }],
  ['an error of SGLang', { object: 'error', message: 'x' }],
  ['no results', {}],
  ['results that are not a list', { results: { 0: given[0] } }],
  ['too few results', { results: given.slice(1) }],
  ['too many results', { results: [...given, score(4, 1)] }],
  ['one result twice', { results: [...given.slice(1), score(1, 1)] }],
  ['an index out of range', { results: [...given.slice(1), score(4, 1)] }],
  ['a negative index', { results: [...given.slice(1), score(-1, 1)] }],
  ['a fractional index', { results: [...given.slice(1), score(0.5, 1)] }],
  ['no index', { results: given.map(({ relevance_score }) => ({ relevance_score })) }],
  ['no score', { results: given.map(({ index }) => ({ index })) }],
  [
    'null, as a broken model gives',
    { results: given.map(({ index }) => ({ index, relevance_score: null })) },
  ],
  ['an infinite score', JSON.parse('{"results":[{"index":0,"relevance_score":1e999}]}')],
  ['a score given as a string', { results: given.map(({ index }) => ({ index, relevance_score: '1' })) }],
  ['a null answer', null],
])('an answer that does not match the request is a failure of the node: %s', (_, answer) => {
  expect(() => rebuild(answer)).toThrow(NodeFailure);
});

test('any answer of a node gives a score for each document in order, or a failure of the node', () => {
  const entry = fc.oneof(
    fc.record({
      index: fc.integer({ min: -1, max: 4 }),
      relevance_score: fc.oneof(fc.double(), fc.anything()),
    }),
    fc.anything(),
  );
  const answer = fc.oneof(
    fc.record({ results: fc.array(entry), usage: fc.anything() }),
    fc.array(entry),
    fc.anything(),
  );
  fc.assert(
    fc.property(answer, (one) => {
      try {
        const { results } = rebuild(one).body;
        expect(results.map(({ index }) => index).sort()).toEqual([0, 1, 2, 3]);
        for (const { relevance_score } of results) expect(relevance_score).toBeTypeOf('number');
      } catch (error) {
        expect(error).toBeInstanceOf(NodeFailure);
      }
    }),
  );
});
