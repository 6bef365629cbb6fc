import fc from 'fast-check';
import { expect, test } from 'vitest';
import { interpolateQuantile, TrafficSteps } from './traffic-steps.ts';

const stepMs = 10_000;
const untilMs = 3_600_000;
const counted = (atMs: number, spanMs: number) => ({
  atMs,
  report: { fromMs: 50_000, toMs: 50_000 + spanMs },
});

test('reports that alternate between early and late add up to an even line', () => {
  const steps = new TrafficSteps({ untilMs, stepMs, steps: 6 });
  for (let at = 0; at < 8; at++)
    steps.add(counted(untilMs + 10_600 - at * 10_600, 10_600), {
      requests: 106,
      promptTokens: 53,
      completionTokens: 53,
    });
  const found = steps.found();
  expect(found.map(([endMs]) => endMs)).toEqual(
    [5, 4, 3, 2, 1, 0].map((before) => untilMs - before * stepMs),
  );
  for (const [, { requests, tokens }] of found)
    expect([requests, tokens].map(Math.round)).toEqual([100, 100]);
});

test('a report’s figures are divided over the steps of its time, without loss or repetition', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 50_000 }), fc.integer({ min: 0, max: 300_000 }), (ago, spanMs) => {
      const steps = new TrafficSteps({ untilMs, stepMs, steps: 36 });
      const refused = { Gone: { status: 410, requests: 8, lastAtMs: 0, lastRequest: 'req' } };
      steps.add(counted(untilMs - ago, spanMs), { requests: 20, refused, ownTime: [4, 16] });
      const found = steps.found();
      const sum = (of: (step: (typeof found)[number][1]) => number): number =>
        found.reduce((all, [, step]) => all + of(step), 0);
      expect(sum(({ requests }) => requests)).toBeCloseTo(20);
      expect(sum((step) => step.refused.get('Gone') ?? 0)).toBeCloseTo(8);
      expect(sum(({ ownTime }) => ownTime[1] ?? 0)).toBeCloseTo(16);
      for (const [endMs] of found) {
        expect(endMs).toBeGreaterThan(untilMs - ago - Math.max(1, spanMs));
        expect(endMs - stepMs).toBeLessThan(untilMs - ago);
      }
    }),
  );
});

test('reports outside the steps are left out', () => {
  const steps = new TrafficSteps({ untilMs, stepMs, steps: 2 });
  steps.add(counted(untilMs + stepMs, stepMs), { requests: 1 });
  steps.add(counted(untilMs - 2 * stepMs, stepMs), { requests: 1 });
  expect(steps.found()).toEqual([]);
});

test('requests in flight are averaged over all reports of a step', () => {
  const steps = new TrafficSteps({ untilMs, stepMs, steps: 1 });
  steps.addInFlight(counted(untilMs - stepMs / 2, 30_000), 4);
  steps.addInFlight(counted(untilMs, stepMs / 2), 8);
  expect(steps.found()[0]?.[1].inFlight).toBeCloseTo(6);
});

test('a quantile lies within its bucket, or at the last bound if it is above all of them', () => {
  const bounds = [10, 20, 50];
  expect(interpolateQuantile([], bounds, 0.5)).toBeUndefined();
  expect(interpolateQuantile([0, 0], bounds, 0.5)).toBeUndefined();
  expect(interpolateQuantile([0, 4], bounds, 0.5)).toBe(15);
  expect(interpolateQuantile([1, 0, 1], bounds, 0.5)).toBe(10);
  expect(interpolateQuantile([1, 1, 0, 8], bounds, 0.95)).toBe(50);
});
