/** Tests that requests recognised without the schema get exactly the fields that the schema would return. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ChatField, chatFields } from '../../../schemas/api/chat-fields.ts';
import { chatRequestSchema } from '../../../schemas/api/openai.ts';
import { dialects } from '../../../shared/engines/dialects.ts';
import { runs } from '../../../test/support/budget.ts';
import { chatExamples } from '../../../test/support/chat-examples.ts';
import type { WholeChat } from '../common/asked.ts';
import { renderBody } from '../common/node-body.ts';
import { plainChatFields } from './plain-chat.ts';
import { shapeChat } from './shape-chat.ts';

const text = fc.string({ maxLength: 8 });
/** Draws a value that clients usually send, and sometimes any other JSON value. */
const oddly = <Value>(usual: fc.Arbitrary<Value>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) });
const message = oddly(
  fc.record(
    {
      role: oddly(fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool')),
      content: oddly(text),
    },
    { requiredKeys: ['role', 'content'] },
  ),
);
const setting = (values: readonly unknown[]): fc.Arbitrary<unknown> =>
  oddly(
    fc.oneof(
      { weight: 12, arbitrary: fc.constantFrom(...values) },
      { weight: 1, arbitrary: fc.double({ min: -3, max: 3 }) },
      { weight: 1, arbitrary: fc.integer() },
      { weight: 1, arbitrary: text },
    ),
  );
const fields: readonly [string, ChatField][] = Object.entries(chatFields);
const settingsWhere = (isPlain: boolean): Record<string, fc.Arbitrary<unknown>> =>
  Object.fromEntries(
    fields
      .filter(([, field]) => (field.isPlain !== undefined) === isPlain)
      .map(([name]) => [name, setting(chatExamples[name as keyof typeof chatExamples])]),
  );
const body = fc.record(
  {
    model: oddly(fc.string({ minLength: 1, maxLength: 202 })),
    messages: oddly(fc.array(message, { maxLength: 4 })),
    stream: oddly(fc.boolean()),
    stream_options: oddly(fc.record({ include_usage: oddly(fc.boolean()) })),
    max_tokens: oddly(fc.integer({ min: -1, max: 9 })),
    max_completion_tokens: oddly(fc.integer({ min: 0, max: 99 })),
    ...settingsWhere(true),
  },
  { requiredKeys: ['model', 'messages'] },
);
const extra = fc.oneof(
  { weight: 8, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.record(settingsWhere(false)) },
  { weight: 1, arbitrary: fc.record({ user: text }) },
  { weight: 1, arbitrary: fc.record({ unknown: text }) },
);

test('a recognised body has the same fields as the schema gives, with each message’s fields in schema order', () => {
  let recognised = 0;
  fc.assert(
    fc.property(body, extra, (value, more) => {
      const raw = JSON.parse(JSON.stringify({ ...value, ...more })) as Record<string, unknown>;
      const fields = plainChatFields(raw);
      if (fields === undefined) return;
      recognised++;
      const parsed = chatRequestSchema.parse(raw);
      expect(fields).toEqual(parsed);
      expect(JSON.stringify(fields.messages)).toBe(JSON.stringify(parsed.messages));
    }),
    { numRuns: runs({ fast: 2000, full: 6000 }) },
  );
  expect(recognised).toBeGreaterThan(20);
});

/** Returns JSON in an unusual format, with white space and escaped letters. */
function spelled(value: unknown, indent: number, every: number): string {
  let letters = 0;
  const asNumber = (part: string): string =>
    part.length === 1 && letters++ % every === 0 ? `\\u00${part.charCodeAt(0).toString(16)}` : part;
  const inString = (text: string): string => text.replace(/\\.|[a-z]/g, asNumber);
  return JSON.stringify(value, null, indent).replace(/"(?:[^"\\]|\\.)*"/g, inString);
}

function rendered(asked: WholeChat, dialect: keyof typeof dialects): unknown {
  try {
    return JSON.parse(renderBody(asked, dialect, { servedName: 'm', maxTokens: 5 }) as string);
  } catch (error) {
    return error;
  }
}

test('a text passed on as written means the same to a node as the rebuilt fields', () => {
  let passed = 0;
  const spelling = fc.record({ indent: fc.nat(2), every: fc.constantFrom(5, 50, 1000) });
  fc.assert(
    fc.property(body, spelling, (value, { indent, every }) => {
      const text = spelled(value, indent, every);
      let asked: WholeChat;
      try {
        asked = shapeChat(JSON.parse(text), undefined, text).asked;
      } catch {
        return;
      }
      if (asked.source?.messages !== undefined) passed++;
      for (const dialect of Object.keys(dialects) as (keyof typeof dialects)[])
        expect(rendered(asked, dialect)).toEqual(rendered({ ...asked, source: undefined }, dialect));
    }),
    { numRuns: runs({ fast: 1000, full: 10_000 }) },
  );
  expect(passed).toBeGreaterThan(0);
});

test.each([
  [
    'a common chat',
    { model: 'm', messages: [{ content: 'x', role: 'user' }], temperature: 0, stream: true },
    true,
  ],
  [
    'a conversation',
    {
      model: 'm',
      messages: [
        { role: 'user', content: '' },
        { role: 'assistant', content: 'a' },
      ],
    },
    true,
  ],
  ['no messages', { model: 'm', messages: [] }, false],
  ['no model', { messages: [{ role: 'user', content: 'x' }] }, false],
  ['a null', { model: 'm', messages: [{ role: 'user', content: 'x' }], stop: null }, false],
  ['parts', { model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }, false],
  ['a tool call', { model: 'm', messages: [{ role: 'assistant', content: 'x', tool_calls: [] }] }, false],
  ['too many tokens', { model: 'm', messages: [{ role: 'user', content: 'x' }], max_tokens: 1e308 }, false],
])('%s: recognised or left to the schema', (_, value, isRecognised) => {
  expect(plainChatFields(value) !== undefined).toBe(isRecognised);
});
