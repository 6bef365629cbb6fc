/**
 * Tests that a rerank request is passed on unchanged, or refused with the name of the field at fault. Nothing in it may be
 * shortened or dropped.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { documentsMax } from '../../../schemas/api/rerank.ts';
import { dialectSchema } from '../../../schemas/names.ts';
import { toNodeBody } from '../common/node-body.ts';
import { shapeRerank } from './shape-rerank.ts';

const least = { model: 'm', query: 'q', documents: ['a', 'b'] };
const shape = (more: object) => shapeRerank({ ...least, ...more });

test('documents may be texts or objects with a text, and only their texts reach a node', () => {
  const { asked, context } = shape({
    documents: ['a', { text: 'b' }],
    ...{ top_n: 1, return_documents: true },
  });
  expect(context).toEqual({ inputs: 2, topN: 1, documents: ['a', 'b'] });
  const target = { servedName: 'served', maxTokens: 1 };
  for (const dialect of dialectSchema.options) {
    if (dialect === 'ollama')
      expect(() => toNodeBody(asked, dialect, target)).toThrow('model: is not supported');
    else
      expect(toNodeBody(asked, dialect, target)).toEqual({
        model: 'served',
        query: 'q',
        documents: ['a', 'b'],
      });
  }
});

test.each([
  ['absent', {}, 2],
  ['null', { top_n: null }, 2],
  ['above the number of documents', { top_n: 1e9 }, 2],
  ['fewer', { top_n: 1 }, 1],
])('as many results as requested, or all: top_n %s', (_, more, topN) => {
  expect(shape(more).context).toEqual({ inputs: 2, topN });
});

test.each([
  ['no query', { query: undefined }, 'query: is required'],
  ['a blank query', { query: ' \n' }, 'query: must not be blank'],
  ['no documents', { documents: [] }, 'documents: must not be empty'],
  ['a string instead of documents', { documents: 'a' }, 'documents: must be of type array'],
  ['a blank document', { documents: ['a', '\t'] }, 'documents[1]: must not be blank'],
  ['a blank text', { documents: [{ text: '' }] }, 'documents[0].text: must not be blank'],
  ['null among the documents', { documents: ['a', null] }, 'documents[1]: '],
  [
    'a document with more fields',
    { documents: [{ text: 'a', title: 'b' }] },
    'documents[0].title: is not a supported field',
  ],
  ['too many documents', { documents: Array.from({ length: documentsMax + 1 }, () => 'a') }, 'documents: '],
  ['a top_n of zero', { top_n: 0 }, 'top_n: '],
  ['a fractional top_n', { top_n: 0.5 }, 'top_n: '],
  ['a string instead of a number', { top_n: '1' }, 'top_n: '],
  ['a truncation option', { max_tokens_per_doc: 10 }, 'max_tokens_per_doc: is not supported'],
  ['an older truncation option', { max_chunks_per_doc: 10 }, 'max_chunks_per_doc: is not supported'],
  ['a silent truncation option', { truncate: 'END' }, 'truncate: is not supported'],
  ['a choice of document fields', { rank_fields: ['a'] }, 'rank_fields: is not supported'],
  ['a priority', { priority: 1 }, 'priority: is not supported'],
  ['an unknown field', { instruction: 'a' }, 'instruction: is not a supported field'],
])('%s is refused by its name', (_, more, message) => {
  expect(() => shape(more)).toThrow(message);
});

test('the maximum number of documents is accepted', () => {
  const documents = Array.from({ length: documentsMax }, (_, index) => `d${index}`);
  expect(shape({ documents }).asked).toMatchObject({ inputs: documentsMax, body: { documents } });
});

test('returned documents are limited in size, because they are held until the answer', () => {
  const documents = ['d'.repeat(1024 * 1024)];
  expect(() => shape({ documents, return_documents: true })).toThrow('return_documents: needs');
  expect(shape({ documents }).context).toEqual({ inputs: 1, topN: 1 });
});

test('Limits 3: the query with each document is a prompt, and together they are the counted text', () => {
  const { asked } = shape({ query: 'one two', documents: ['three', 'four five six'] });
  expect(asked).toMatchObject({
    promptBytes: 20 + 256,
    leastTokens: 4,
    textBytes: 2 * 7 + 5 + 13,
    maxTokens: 0,
  });
  fc.assert(
    fc.property(fc.array(fc.string({ minLength: 1 }), { minLength: 1 }), (texts) => {
      const documents = texts.map((text) => `x${text}`);
      const { promptBytes, leastTokens = 0, likelyTokens } = shape({ documents }).asked;
      expect(leastTokens).toBeLessThanOrEqual(likelyTokens);
      expect(likelyTokens).toBeLessThanOrEqual(promptBytes);
    }),
  );
});
