import { expect, test } from 'vitest';
import { BodyBudget } from '../../../shared/runtime/byte-budget.ts';
import {
  bytesOf,
  chunk,
  messagesSurface,
  responsesSurface,
  streamOf,
} from '../../../test/support/surface-answers.ts';
import { HeldText } from './held-text.ts';
import { UnheldAnswer } from './memory-refusal.ts';

const kib = 1024;

test('held text is charged in few blocks, never too little, and every block is returned once', () => {
  const memory = new BodyBudget(64 * kib * kib);
  const held = new HeldText(memory.of('acme'));
  const seen = new Set<number>();
  for (let characters = 100; characters <= 100_000; characters += 100) {
    held.add(100);
    expect(memory.usedBytes).toBeGreaterThanOrEqual(characters * 2);
    expect(memory.usedBytes).toBeLessThanOrEqual(characters * 4 + 4 * kib);
    seen.add(memory.usedBytes);
  }
  expect(seen.size).toBeLessThan(10);
  held.repeat(4);
  expect(memory.usedBytes).toBeGreaterThanOrEqual(1_000_000);
  held.release();
  held.release();
  expect(memory.usedBytes).toBe(0);
});

test('one organisation gets its share, and the others get the rest', () => {
  const memory = new BodyBudget(64 * kib, 16 * kib);
  const held = new HeldText(memory.of('acme'));
  expect(() => held.add(16 * kib)).toThrow(UnheldAnswer);
  const failure = (() => {
    try {
      held.add(1);
    } catch (error) {
      return error as UnheldAnswer;
    }
    return undefined;
  })();
  expect(failure).toMatchObject({
    ...{ kind: 'unheld', message: 'body budget of the organisation' },
    refusal: { type: 'InferenceUnavailableError' },
  });
  const other = new HeldText(memory.of('birch'));
  other.add(7 * kib);
  other.release();
  held.release();
  expect(memory.usedBytes).toBe(0);
});

const call = (input: string) => ({
  tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: input } }],
});
const streams = [
  ['text', responsesSurface, chunk({ content: 'x'.repeat(kib) })],
  ['thoughts', responsesSurface, chunk({ reasoning_content: 'x'.repeat(kib) })],
  [
    'probabilities',
    responsesSurface,
    chunk({ content: 'x' }, null, {
      logprobs: { content: Array(20).fill({ token: 'x', logprob: -1, bytes: [120], top_logprobs: [] }) },
    }),
  ],
  ['a call', responsesSurface, chunk(call(`{"a":"${'x'.repeat(kib)}`))],
  ['a call in a message', messagesSurface, chunk(call(`{"a":"${'x'.repeat(kib)}`))],
] as const;

test.each(streams)(
  '%s held by a stream counts for its organisation, and ends the stream if there is no more room',
  (_, surface, event) => {
    const memory = new BodyBudget(256 * kib, 64 * kib);
    const include = ['message.output_text.logprobs'];
    const wanted = { tools: true, ...(surface === responsesSurface && { fields: { include } }) };
    const stream = streamOf(surface, wanted, memory.of('acme'));
    const data = bytesOf([event]).toString().slice('data: '.length).trim();
    const text = data.replace(
      '"id":"c","function":{"name":"f","arguments":"{\\"a\\":\\"',
      '"function":{"arguments":"',
    );
    let isHeld = false;
    for (let pieces = 0; pieces < 1000 && stream.state !== 'failed'; pieces += 1) {
      stream.push(pieces === 0 ? data : text);
      isHeld ||= memory.usedBytes > 0;
      expect(memory.usedBytes).toBeLessThanOrEqual(64 * kib);
    }
    expect(isHeld).toBe(true);
    expect(stream.failure).toMatchObject({ kind: 'unheld' });
    stream.release();
    expect(memory.usedBytes).toBe(0);
  },
);

const controls = '\u0001'.repeat(8 * kib);
const token = { token: controls, logprob: -1, bytes: null, top_logprobs: [] };
const named = { tool_calls: [{ index: 0, id: 'c', function: { name: controls, arguments: '{}' } }] };
test.each([
  ['text', responsesSurface, [chunk({ content: controls })]],
  ['tokens', responsesSurface, [chunk({ content: 'x' }, null, { logprobs: { content: [token] } })]],
  ['a name', responsesSurface, [chunk(named)]],
  ['text after a call', messagesSurface, [chunk(call('{}')), chunk({ content: controls })]],
  ['a name', messagesSurface, [chunk(named)]],
] as const)(
  'control characters in %s count as six, as many as an event needs for each',
  (_, surface, events) => {
    const memory = new BodyBudget(16 * kib * kib);
    const include = ['message.output_text.logprobs'];
    const wanted = { tools: true, ...(surface === responsesSurface && { fields: { include } }) };
    const stream = streamOf(surface, wanted, memory.of('acme'));
    for (const event of events) stream.push(JSON.stringify(event));
    expect(memory.usedBytes).toBeGreaterThanOrEqual(6 * controls.length);
    stream.release();
  },
);
