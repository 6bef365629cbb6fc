import { expect, test } from 'vitest';
import { OutputItems } from './output-items.ts';

const context = { repeated: '', names: new Map(), sealKey: undefined };
const entry = { token: 'a', logprob: -1, bytes: null };
const probability = { ...entry, top_logprobs: Array.from({ length: 20 }, () => entry) };

/** Returns how often `step` succeeds before the size bound is reached. */
function stepsOf(step: (items: OutputItems, at: number) => void): number {
  const items = new OutputItems({ unique: 'u', context, events: undefined, held: undefined });
  for (let at = 0; at < 20_000; at += 1) {
    try {
      step(items, at);
    } catch (error) {
      expect(error).toMatchObject({ kind: 'too_large' });
      return at;
    }
  }
  throw new Error('it is not bounded');
}

test.each<[string, (items: OutputItems, at: number) => void, number]>([
  ['text', (items) => items.addText('output_text', 'a'.repeat(1024)), 4095],
  ['probabilities', (items) => items.addText('output_text', 'a', [probability]), 4892],
  ['items', (items, at) => items.addText(at % 2 === 0 ? 'output_text' : 'summary_text', 'a'), 4092],
  ['parts', (items, at) => items.addText(at % 2 === 0 ? 'output_text' : 'refusal', 'a'), 4092],
  [
    'texts after a call',
    (items, at) => {
      if (at === 0) items.call({ index: 0, opened: { id: 'c', name: 'f' }, arguments: '{}' });
      else items.addText(at % 2 === 0 ? 'output_text' : 'refusal', 'a');
    },
    4092,
  ],
])('the text held of an answer is bounded: %s', (_, step, expected) => {
  expect(stepsOf(step)).toBe(expected);
});
