import { expect, test } from 'vitest';
import { openCallBounds } from '../state/open-calls.ts';
import { RequestTurns } from './request-turns.ts';

const here = new AbortController().signal;

test('of many questions at once few are asked of gateways, and none of operators waits for persons', async () => {
  const turns = new RequestTurns();
  const running = { operators: 0, persons: 0 };
  const most = { operators: 0, persons: 0 };
  const work = (who: keyof typeof running) => async (): Promise<void> => {
    running[who]++;
    most[who] = Math.max(most[who], running[who]);
    await new Promise((resolve) => setTimeout(resolve, 1));
    running[who]--;
  };
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = ['ana', 'ben'].map((person) => turns.run({ person }, here, () => held));
  await Promise.all(Array.from({ length: 30 }, () => turns.run({}, here, work('operators'))));
  release();
  await Promise.all(slow);
  const others = Array.from({ length: 30 }, (_, n) => turns.run({ person: `p-${n}` }, here, work('persons')));
  await Promise.all(others);
  expect(most).toEqual({ operators: 2, persons: 2 });
});

test('a person has one question asked at a time', async () => {
  const turns = new RequestTurns();
  let isFirst = true;
  const first = turns.run({ person: 'ana' }, here, async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    isFirst = false;
  });
  const second = turns.run({ person: 'ana' }, here, () => Promise.resolve(isFirst));
  await first;
  expect(await second).toBe(false);
});

test('persons cannot take all the streams that a gateway follows, at four replicas', () => {
  const { total, forOperators } = openCallBounds.follow;
  expect(4 * (total - forOperators)).toBeLessThan(128);
});
