import { expect, test } from 'vitest';
import { Takeovers } from './takeovers.ts';

const hourMs = 3_600_000;

/** Lets two replicas take a node from each other whenever they may. Returns the number of takeovers. */
function contend(durationMs: number): number {
  const replicas = [new Takeovers(), new Takeovers()];
  let count = 0;
  for (let nowMs = 0; nowMs < durationMs; nowMs += 500) {
    const taker = replicas[count % 2]!;
    if (!taker.mayTake('n1', nowMs)) continue;
    taker.count('n1', nowMs);
    count++;
  }
  return count;
}

test('replicas that contend for a node all day write hundreds of commits, not a hundred thousand', () => {
  expect(contend(10_000)).toBe(4);
  expect(contend(hourMs)).toBeLessThan(40);
  expect(contend(24 * hourMs)).toBeLessThan(600);
});

test('an uncontended node is taken at once, and each node has its own wait', () => {
  const takeovers = new Takeovers();
  takeovers.count('n1', 0);
  expect(takeovers.mayTake('n1', 4999)).toBe(false);
  expect(takeovers.mayTake('n2', 0)).toBe(true);
  expect(takeovers.mayTake('n1', 5000)).toBe(true);
  takeovers.count('n1', 5000);
  expect(takeovers.mayTake('n1', 14_999)).toBe(false);
  takeovers.count('n1', hourMs);
  expect(takeovers.mayTake('n1', hourMs + 5000)).toBe(true);
});
