import fc from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { chatRequestSchema, embeddingsRequestSchema } from '../../../schemas/api/openai.ts';
import { PresentFields } from './validate.ts';

const messages = [
  { role: 'user', content: 'a' },
  { role: 'assistant', content: null, tool_calls: [] },
  { role: 'tool', content: 'b', tool_call_id: 'c' },
  { role: 'user', content: [{ type: 'text', text: 'a' }], name: null },
];
const anything = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    [],
    {},
    true,
    false,
    0,
    1,
    0.5,
    -1,
    200,
    'm',
    '',
    'auto',
    'none',
    'text',
    'low',
    'medium',
  ),
  fc.constantFrom<unknown>({ include_usage: true }, { type: 'text' }, { a: 1 }, ['a'], ['text'], [1, 2], {
    50256: -100,
  }),
  fc.jsonValue(),
);

/** Bodies of any of the shape's fields in any order, some unknown, most of them in addition to the required ones. */
function bodies(shape: object, least: Record<string, unknown>): fc.Arbitrary<Record<string, unknown>> {
  const name = fc.oneof({ weight: 19, arbitrary: fc.constantFrom(...Object.keys(shape)) }, fc.string());
  const pairs = fc.array(fc.tuple(name, anything), { maxLength: 5 });
  return fc
    .tuple(pairs, fc.subarray(Object.entries(least)), fc.boolean())
    .map(([some, part, isWhole]) =>
      Object.fromEntries([...some, ...(isWhole ? Object.entries(least) : part)]),
    );
}

function same(schema: z.ZodObject<z.core.$ZodShape, z.core.$strict>, least: Record<string, unknown>): void {
  const fields = new PresentFields(schema);
  let accepted = 0;
  fc.assert(
    fc.property(bodies(schema.shape, least), (body) => {
      const whole = schema.safeParse(body, { reportInput: true });
      const present = fields.safeParse(body);
      expect(present.data).toStrictEqual(whole.data);
      expect(JSON.stringify(present.data)).toBe(JSON.stringify(whole.data));
      expect(present.error?.issues).toStrictEqual(whole.error?.issues);
      if (whole.success) accepted++;
    }),
    { numRuns: 1000 },
  );
  expect(accepted).toBeGreaterThan(100);
}

test('a chat request parsed by the fields it has comes out as by the whole schema, fault for fault', () => {
  same(chatRequestSchema, { model: 'm', messages });
});

test('an embeddings request parsed by the fields it has comes out as by the whole schema, fault for fault', () => {
  same(embeddingsRequestSchema, { model: 'm', input: ['a'] });
});

test('a field whose name holds the names of others is not taken for them', () => {
  const fields = new PresentFields(z.strictObject({ a: z.number(), b: z.number() }));
  expect(fields.safeParse({ a: 1, b: 2 }).success).toBe(true);
  expect(fields.safeParse({ 'a,b': 1 }).success).toBe(false);
});

test('however many sets of fields are sent, each request is parsed', () => {
  const shape = Object.fromEntries(
    Array.from({ length: 10 }, (_, index) => [`f${index}`, z.number().optional()]),
  );
  const fields = new PresentFields(z.strictObject(shape));
  for (let set = 0; set < 1024; set++) {
    const body = Object.fromEntries(
      Object.keys(shape).flatMap((name, bit) => ((set >> bit) & 1 ? [[name, bit]] : [])),
    );
    expect(fields.safeParse(body)).toEqual({ success: true, data: body });
  }
});
