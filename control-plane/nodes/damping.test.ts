import { expect, test } from 'vitest';
import { type Damped, observe, resumed } from './damping.ts';

/** Observes each second, `up` by the second, and gives the seconds at which what is told changed. */
function told(
  seconds: number,
  up: (second: number) => boolean,
  from: Damped = resumed(true),
): [number, boolean][] {
  const changes: [number, boolean][] = [];
  let damped = from;
  for (let second = 0; second < seconds; second++) {
    const next = observe(damped, up(second), second * 1000);
    if (next.told !== damped.told && next.told !== undefined) changes.push([second, next.told]);
    damped = next;
  }
  return changes;
}

test('a node that nobody has told of yet is up at once', () => {
  expect(told(3, () => true, resumed(undefined))).toEqual([[0, true]]);
});

test('down is told at once, up after five seconds', () => {
  expect(told(60, (second) => second !== 10)).toEqual([
    [10, false],
    [16, true],
  ]);
});

test('a node that comes and goes each second is told down once, for an hour', () => {
  expect(told(3600, (second) => second % 2 === 1)).toEqual([[0, false]]);
});

test('with each fall an up has to last twice as long, a minute at most', () => {
  // It falls the moment it is told up: the worst that a node can do.
  let damped = resumed(true);
  const lasted: number[] = [];
  for (let fall = 0, now = 0; fall < 7; fall++) {
    damped = observe(damped, false, now);
    const since = now + 1000;
    for (now = since; damped.told !== true; now += 1000) damped = observe(damped, true, now);
    lasted.push((now - 1000 - since) / 1000);
  }
  expect(lasted).toEqual([5, 10, 20, 40, 60, 60, 60]);
});

test('a node that has stood for five minutes has its good name back', () => {
  const falls = [0, 20, 60, 460];
  const up = (second: number): boolean => !falls.includes(second);
  expect(told(600, up).filter(([, state]) => state)).toEqual([
    [6, true],
    [31, true],
    [81, true],
    [466, true],
  ]);
});

test('a replica that takes a fallen node over lets it last like any other', () => {
  expect(told(10, () => true, resumed(false))).toEqual([[5, true]]);
});
