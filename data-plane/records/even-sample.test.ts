/**
 * Tests that samples are limited in size, that kinds have equal shares, and that within a kind every request is equally
 * likely.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../test/support/budget.ts';
import { seededRandom } from '../../test/support/random.ts';
import { EvenSample } from './even-sample.ts';

function sampleOf(sizes: readonly number[], max: number, seed = 1) {
  const random = seededRandom(seed);
  const sample = new EvenSample(max, random);
  const left = sizes.map((size, kind) => ({ kind, size, given: 0 }));
  for (let open = left.filter(({ size }) => size > 0); open.length > 0; ) {
    const each = open[Math.floor(random() * open.length)];
    if (each === undefined) break;
    sample.add(`kind-${each.kind}`, [each.kind, each.given++]);
    open = open.filter(({ size, given }) => given < size);
  }
  return sample.taken();
}

test('a sample stays within its limit, treats all kinds evenly, and its weights add up to all requests', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(sizes, fc.integer({ min: 12, max: 400 }), fc.integer(), (of, max, seed) => {
      const taken = sampleOf(of, max, seed);
      expect(taken.length).toBeLessThanOrEqual(max);
      const kept = of.map((_, kind) => taken.filter(({ request }) => request[0] === kind));
      const most = Math.max(...kept.map(({ length }) => length));
      for (const [kind, size] of of.entries()) {
        const own = kept[kind] ?? [];
        if (own.length < size) expect(own.length).toBe(most);
        expect(new Set(own.map(({ request }) => request[1])).size, 'each once').toBe(own.length);
        const requests = own.reduce((sum, each) => sum + each.requests, 0);
        expect(requests).toBeCloseTo(size, 6);
      }
      // If more places are unused than there are kinds, all requests must have been kept.
      if (taken.length < max - of.length) expect(kept.map(({ length }) => length)).toEqual(of);
    }),
    { numRuns: runs({ fast: 60, full: 1000 }) },
  );
});

test('each kind gets twenty requests if there is room for twenty', () => {
  const taken = sampleOf([50_000, ...Array.from({ length: 99 }, () => 25)], 2_000);
  for (let kind = 0; kind < 100; kind++)
    expect(taken.filter(({ request }) => request[0] === kind).length).toBeGreaterThanOrEqual(20);
  expect(taken.length).toBeGreaterThan(1_900);
});

test('early, middle and late requests are sampled equally often', () => {
  const kept = new Array<number>(10).fill(0);
  const tries = 400;
  for (let seed = 0; seed < tries; seed++)
    for (const { request } of sampleOf([200, 5], 25, seed))
      if (request[0] === 0) {
        const tenth = Math.floor(Number(request[1]) / 20);
        kept[tenth] = (kept[tenth] ?? 0) + 1;
      }
  // Each tenth of the requests keeps 2 of its 20 per try on average. That makes 800 in 400 tries, with a standard deviation
  // of about 26.
  for (const count of kept) expect(Math.abs(count - (tries * 20) / 10)).toBeLessThan(5 * 30);
});

test('if there are more kinds than the sample may hold, some are left out', () => {
  expect(sampleOf(new Array<number>(500).fill(3), 100)).toHaveLength(100);
});
