/** Tests that the inputs of tool calls and structured answers satisfy the requested schema. */
import { expect, test } from 'vitest';
import { sampleValue } from './json-sample.ts';

test.each([
  { schema: undefined, value: {} },
  { schema: { type: 'object', properties: { a: { type: 'string' } } }, value: {} },
  {
    schema: {
      type: 'object',
      required: ['unit', 'degrees', 'at', 'tags', 'deep', 'maybe'],
      properties: {
        unit: { enum: ['celsius', 'kelvin'] },
        degrees: { type: 'integer', minimum: 3 },
        at: { type: 'string', format: 'date' },
        tags: { type: 'array', minItems: 2, items: { type: 'boolean' } },
        deep: { $ref: '#/$defs/deep' },
        maybe: { anyOf: [{ type: 'null' }, { type: 'string' }] },
      },
      $defs: { deep: { type: 'object', required: ['x'], properties: { x: { const: 7 } } } },
    },
    value: {
      unit: 'celsius',
      degrees: 3,
      at: '2026-01-01',
      tags: [false, false],
      deep: { x: 7 },
      maybe: null,
    },
  },
  { schema: { type: 'string', minLength: 6 }, value: 'textxx' },
  { schema: { type: 'string', maxLength: 2 }, value: 'te' },
  { schema: { type: 'integer', exclusiveMinimum: 4, multipleOf: 5 }, value: 5 },
  { schema: { type: 'integer', maximum: -3 }, value: -3 },
  { schema: { type: 'number', minimum: 0.5, exclusiveMaximum: 0.9 }, value: 0.5 },
  { schema: { type: 'number', exclusiveMinimum: 1, exclusiveMaximum: 2 }, value: 1.5 },
  { schema: { type: ['string', 'null'] }, value: 'text' },
  {
    schema: {
      allOf: [{ type: 'object', required: ['a'], properties: { a: { type: 'null' } } }],
      required: ['b'],
      properties: { b: { type: 'boolean' } },
    },
    value: { b: false, a: null },
  },
])('a sample satisfies $schema', ({ schema, value }) => {
  expect(sampleValue(schema)).toEqual(value);
});

test('a schema with endless self-reference gets a finite sample', () => {
  const loop = { type: 'object', required: ['next'], properties: { next: { $ref: '#' } } };
  expect(JSON.stringify(sampleValue(loop)).length).toBeLessThan(1000);
});

test('a schema with endless branching takes a limited time', () => {
  const names = Array.from({ length: 30 }, (_, index) => `p${index}`);
  const wide = {
    type: 'object',
    required: names,
    properties: Object.fromEntries(names.map((name) => [name, { $ref: '#' }])),
  };
  expect(JSON.stringify(sampleValue(wide)).length).toBeLessThan(2_000_000);
});

test('a reference to an inherited member is not followed', () => {
  expect(sampleValue({ $ref: '#/constructor' })).toBeNull();
});
