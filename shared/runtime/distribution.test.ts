import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Distribution } from './distribution.ts';

const bounds = [0.1, 1, 10];
const options = { name: 'headgate_test_seconds', help: 'a test' };

function lines(text: string): string[] {
  return text.split('\n').toSorted();
}

test('a distribution tells Prometheus what a histogram of prom-client tells of the same values', async () => {
  const observation = fc.record({
    model: fc.constantFrom('a', 'b "quoted"', 'c\\d'),
    value: fc.oneof(fc.constantFrom(...bounds, 0), fc.double({ min: 0, max: 100, noNaN: true })),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(observation), async (observations) => {
      const [ours, theirs] = [new Registry(), new Registry()];
      const distribution = new Distribution({ ...options, bounds, registry: ours });
      const histogram = new Histogram({
        ...options,
        buckets: bounds,
        labelNames: ['model'],
        registers: [theirs],
      });
      for (const { model, value } of observations) {
        distribution.series({ model }).observe(value);
        histogram.observe({ model }, value);
      }
      expect(lines(await ours.metrics())).toEqual(lines(await theirs.metrics()));
    }),
  );
});

test('a series that was never fed is not told, and one set of labels is one series', async () => {
  const registry = new Registry();
  const distribution = new Distribution({ ...options, bounds, registry });
  expect(distribution.series({ model: 'a' })).toBe(distribution.series({ model: 'a' }));
  expect(await registry.metrics()).not.toContain('model');
  distribution.series({ model: 'a' }).observe(1);
  expect(await registry.metrics()).toContain('headgate_test_seconds_bucket{le="1",model="a"} 1');
  registry.resetMetrics();
  expect(await registry.metrics()).not.toContain('model');
});
