import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Distribution } from './distribution.ts';

const bounds = [0.1, 1, 10];
const options = { name: 'headgate_test_seconds', help: 'a test' };

function lines(text: string): string[] {
  return text.split('\n').toSorted();
}

test('a distribution exports the same lines as prom-client’s histogram with the same values', async () => {
  const observation = fc.record({
    model: fc.constantFrom('a', 'b "quoted"', 'c\\d'),
    value: fc.oneof(fc.constantFrom(...bounds, 0), fc.double({ min: 0, max: 100, noNaN: true })),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(observation), async (observations) => {
      const [own, reference] = [new Registry(), new Registry()];
      const distribution = new Distribution({ ...options, bounds, registry: own });
      const histogram = new Histogram({
        ...options,
        buckets: bounds,
        labelNames: ['model'],
        registers: [reference],
      });
      for (const { model, value } of observations) {
        distribution.series({ model }).observe(value);
        histogram.observe({ model }, value);
      }
      expect(lines(await own.metrics())).toEqual(lines(await reference.metrics()));
    }),
  );
});

test('a series without observations is not exported, and equal labels make one series', async () => {
  const registry = new Registry();
  const distribution = new Distribution({ ...options, bounds, registry });
  expect(distribution.series({ model: 'a' })).toBe(distribution.series({ model: 'a' }));
  expect(await registry.metrics()).not.toContain('model');
  distribution.series({ model: 'a' }).observe(1);
  expect(await registry.metrics()).toContain('headgate_test_seconds_bucket{le="1",model="a"} 1');
  registry.resetMetrics();
  expect(await registry.metrics()).not.toContain('model');
});
