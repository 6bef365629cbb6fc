import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shapeChat } from '../chat/shape-chat.ts';
import { chatPrefixes } from './asked.ts';

interface Message {
  readonly role: string;
  readonly content: unknown;
}

function prefixes(messages: readonly Message[], more: object = {}): readonly number[] {
  const body = JSON.stringify({ model: 'm', messages, ...more });
  return chatPrefixes(shapeChat(JSON.parse(body)).asked);
}

const user = (content: unknown): Message => ({ role: 'user', content });
const system = (content: string): Message => ({ role: 'system', content });
const shared = (a: readonly number[], b: readonly number[]): number =>
  a.findIndex((hash, at) => b[at] !== hash);

const message = fc.record({
  role: fc.constantFrom('system', 'user', 'assistant'),
  content: fc.string({ minLength: 1, maxLength: 700 }),
});

test('a conversation that continues keeps every prefix of its earlier turns', () => {
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 8 }), message, (before, next) => {
      const earlier = prefixes(before);
      expect(prefixes([...before, next]).slice(0, earlier.length)).toEqual(earlier);
    }),
  );
});

test('prompts share no prefix beyond the point where they differ', () => {
  const [a, b] = ['red', 'blue'].map((colour) =>
    prefixes([system('s'.repeat(2000)), user(colour), user('x')]),
  );
  // The two prompts share three prefixes: up to 256 characters, up to 1024, and up to the end of the system message.
  expect(shared(a ?? [], b ?? [])).toBe(3);
  expect(new Set([...(a ?? []), ...(b ?? [])]).size).toBe(3 + 2 + 2);
});

test('a document before its question is a prefix of its own', () => {
  const document = 'd'.repeat(5000);
  const [a, b] = ['why?', 'who?'].map((question) => prefixes([user(`${document} ${question}`)]));
  expect(shared(a ?? [], b ?? [])).toBe(3);
});

test.each<[string, readonly [Message[], object], readonly [Message[], object]]>([
  ['the role', [[user('x')], {}], [[system('x')], {}]],
  ['the cache key', [[user('x')], { prompt_cache_key: 'a' }], [[user('x')], { prompt_cache_key: 'b' }]],
  ['a border between messages', [[user('a'), user('bc')], {}], [[user('ab'), user('c')], {}]],
  [
    'a tool',
    [[user('x')], { tools: [{ type: 'function', function: { name: 'a' } }] }],
    [[user('x')], { tools: [{ type: 'function', function: { name: 'b' } }] }],
  ],
])('%s counts', (_, [a, moreA], [b, moreB]) => {
  expect(prefixes(a, moreA)).not.toEqual(prefixes(b, moreB));
});

test('a text in parts has the prefixes of all its parts', () => {
  const parts = (...texts: string[]): Message => user(texts.map((text) => ({ type: 'text', text })));
  expect(prefixes([parts('a', 'b')])).not.toEqual(prefixes([parts('a', 'c')]));
});

test('for a prompt of any length, at most 64 prefixes are kept, over at most 64 Ki characters', () => {
  const many = Array.from({ length: 3000 }, (_, at) => user(`message ${at}`));
  expect(prefixes(many)).toHaveLength(64);
  const long = system('x'.repeat(70_000));
  expect(prefixes([long, user('a')])).toEqual(prefixes([long, user('b')]));
});
