/**
 * Compares the lower bound on a prompt's tokens with counts of real tokenisers (test/fixtures/token-counts.json): prose in
 * many scripts, code, data, and repetitions that vocabularies encode as single tokens.
 */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shapeChat } from '../chat/shape-chat.ts';
import { shapeEmbeddings } from '../embeddings/shape-embeddings.ts';
import { lowerTokenBound } from './asked.ts';
import { leastTokens } from './prompt-size.ts';

interface Counts {
  readonly texts: readonly {
    readonly name: string;
    readonly text: string;
    readonly tokens: Readonly<Record<string, number>>;
  }[];
  readonly longest: Readonly<Record<string, readonly string[]>>;
}
const counts = JSON.parse(
  readFileSync(new URL('../../../test/fixtures/token-counts.json', import.meta.url), 'utf8'),
) as Counts;
const withLeast = ({ asked }: ReturnType<typeof shapeChat>) => ({
  ...asked,
  leastTokens: lowerTokenBound(asked),
});
const chatOf = (content: unknown) =>
  withLeast(shapeChat({ model: 'm', messages: [{ role: 'user', content }] }));

test.each(counts.texts)(
  'Limits 3: no tokeniser makes fewer tokens of $name than the lower bound',
  ({ text, tokens }) => {
    const fewest = Math.min(...Object.values(tokens));
    expect(Object.keys(tokens)).toHaveLength(6);
    expect(leastTokens(text)).toBeLessThanOrEqual(fewest);
    // The bound must hold however the text is split into parts, as a message and as embedding input.
    const parts = text.match(/[\s\S]{1,7}/gu)?.slice(0, 1000) ?? [];
    const whole = chatOf(text);
    expect(chatOf(parts.map((part) => ({ type: 'text', text: part }))).leastTokens).toBeLessThanOrEqual(
      fewest,
    );
    expect(whole.leastTokens).toBeLessThanOrEqual(fewest);
    expect(whole.promptBytes).toBeGreaterThan(Math.max(...Object.values(tokens)));
    const { asked: embeddings } = shapeEmbeddings({ model: 'm', input: [text, text, 'a'] });
    expect(embeddings.leastTokens).toBeLessThanOrEqual(fewest);
  },
);

test.each(Object.entries(counts.longest))(
  'Limits 3: the lower bound of each long token of %s is at most one',
  (_name, tokens) => {
    expect(tokens.length).toBeGreaterThan(10);
    for (const token of tokens) expect(leastTokens(token), JSON.stringify(token)).toBeLessThanOrEqual(1);
  },
);

test('the lower bound is subadditive: joining two texts never exceeds the sum of their bounds', () => {
  const piece = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom(...counts.texts.map(({ text }) => text.slice(0, 300))),
    fc.constantFrom(...Object.values(counts.longest).flat()),
  );
  fc.assert(
    fc.property(piece, piece, (one, other) => {
      expect(leastTokens(one + other)).toBeLessThanOrEqual(leastTokens(one) + leastTokens(other));
    }),
    { numRuns: 3000 },
  );
});

test('the lower bound is useful: at least half the tokens of plain prose', () => {
  for (const { text, tokens } of counts.texts.filter(({ name }) =>
    /^(English|Russian|Hindi|Korean)/.test(name),
  ))
    expect(leastTokens(text)).toBeGreaterThanOrEqual(Math.min(...Object.values(tokens)) / 2);
});

test('the lower bound excludes parts of an earlier answer that a template may leave out', () => {
  const answer = (content: string, more = {}) =>
    withLeast(
      shapeChat({
        model: 'm',
        messages: [
          { role: 'assistant', content, ...more },
          { role: 'user', content: 'hi' },
        ],
      }),
    ).leastTokens;
  expect(answer('one two three')).toBe(4);
  expect(answer('one two three</think> four')).toBe(1);
  expect(answer('one', { reasoning: 'two three four' })).toBe(2);
});

test('an image counts in every size, and its lower bound is small', () => {
  const url = 'data:image/png;base64,AAAA';
  const {
    promptBytes,
    likelyTokens,
    leastTokens: least,
  } = chatOf([{ type: 'image_url', image_url: { url } }]);
  const none = chatOf([{ type: 'text', text: '' }]);
  expect(promptBytes - none.promptBytes).toBe(4096);
  expect(likelyTokens - none.likelyTokens).toBe(1024);
  expect(least).toBe(4);
});
