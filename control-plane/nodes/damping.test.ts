import { expect, test } from 'vitest';
import { type DampingState, observe, resumeDamping } from './damping.ts';

/**
 * Observes a node every second. `up` tells whether the node is healthy at a given second. Returns the seconds at which the
 * reported health changed.
 */
function reported(
  seconds: number,
  up: (second: number) => boolean,
  from: DampingState = resumeDamping(true),
): [number, boolean][] {
  const changes: [number, boolean][] = [];
  let damped = from;
  for (let second = 0; second < seconds; second++) {
    const next = observe(damped, up(second), second * 1000);
    if (next.reportedUp !== damped.reportedUp && next.reportedUp !== undefined)
      changes.push([second, next.reportedUp]);
    damped = next;
  }
  return changes;
}

test('a node without an earlier report is up at once', () => {
  expect(reported(3, () => true, resumeDamping(undefined))).toEqual([[0, true]]);
});

test('a node is reported down at once, and up after five seconds', () => {
  expect(reported(60, (second) => second !== 10)).toEqual([
    [10, false],
    [16, true],
  ]);
});

test('a node that flaps each second is reported down once per hour', () => {
  expect(reported(3600, (second) => second % 2 === 1)).toEqual([[0, false]]);
});

test('after each failure the node must stay up twice as long, up to a minute', () => {
  // In the worst case, the node goes down as soon as it is reported up.
  let damped = resumeDamping(true);
  const lasted: number[] = [];
  for (let fall = 0, now = 0; fall < 7; fall++) {
    damped = observe(damped, false, now);
    const since = now + 1000;
    for (now = since; damped.reportedUp !== true; now += 1000) damped = observe(damped, true, now);
    lasted.push((now - 1000 - since) / 1000);
  }
  expect(lasted).toEqual([5, 10, 20, 40, 60, 60, 60]);
});

test('a node’s penalty is reset after five minutes up', () => {
  const falls = [0, 20, 60, 460];
  const up = (second: number): boolean => !falls.includes(second);
  expect(reported(600, up).filter(([, state]) => state)).toEqual([
    [6, true],
    [31, true],
    [81, true],
    [466, true],
  ]);
});

test('a replica that takes over a node that is down damps it like any other', () => {
  expect(reported(10, () => true, resumeDamping(false))).toEqual([[5, true]]);
});
