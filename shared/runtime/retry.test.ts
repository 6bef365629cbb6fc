/** Tests that pauses between retries grow, vary and can end early, and that sleeping leaves no listener on its signal. */
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { Backoff, type Clock, sleep } from './retry.ts';

function clockWith(random: number): Clock & { readonly slept: number[] } {
  const slept: number[] = [];
  return { slept, now: () => 0, sleep: async (ms) => void slept.push(ms), random: () => random };
}

test.each([
  [0, [50, 100, 200, 350, 350]],
  [1, [100, 200, 400, 700, 700]],
])('pauses double up to the maximum, with a random part (random %d)', async (random, expected) => {
  const clock = clockWith(random);
  const backoff = new Backoff({ minMs: 100, maxMs: 700, clock });
  for (const _ of expected) await backoff.pause();
  expect(clock.slept).toEqual(expected);
});

test('after a success the first pause is short again', async () => {
  const clock = clockWith(1);
  const backoff = new Backoff({ minMs: 100, maxMs: 700, clock });
  await backoff.pause();
  await backoff.pause();
  backoff.reset();
  await backoff.pause();
  expect(clock.slept).toEqual([100, 200, 100]);
});

test('a sleep ends early without an error when its signal aborts, and releases the signal', async () => {
  const ending = new AbortController();
  const sleeping = sleep(3_600_000, ending.signal);
  ending.abort();
  await sleeping;
  await sleep(3_600_000, ending.signal);
  expect(getEventListeners(ending.signal, 'abort')).toEqual([]);
});
