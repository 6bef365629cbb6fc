import { expect, test } from 'vitest';
import { openCallBounds } from '../state/open-calls.ts';
import { GatewayTurns } from './gateway-turns.ts';

const here = new AbortController().signal;

test('only a few of many simultaneous questions reach gateways, and operators do not wait for persons', async () => {
  const turns = new GatewayTurns();
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

test('a person has one question running at a time', async () => {
  const turns = new GatewayTurns();
  let isFirst = true;
  const first = turns.run({ person: 'ana' }, here, async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    isFirst = false;
  });
  const second = turns.run({ person: 'ana' }, here, () => Promise.resolve(isFirst));
  await first;
  expect(await second).toBe(false);
});

test('a client that disconnects while others take their turns stops waiting, and may ask again at once', async () => {
  const turns = new GatewayTurns();
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const others = ['vic', 'vera'].map((person) => turns.run({ person }, here, () => held));
  const client = new AbortController();
  const left = turns.run({ person: 'vlad' }, client.signal, () => Promise.resolve('of who left'));
  client.abort(new Error('the client has left'));
  await expect(left).rejects.toThrow('the client has left');
  const again = turns.run({ person: 'vlad' }, here, () => Promise.resolve('again'));
  release();
  expect(await again).toBe('again');
  await Promise.all(others);
});

test('persons on four replicas together cannot use up the streams that a gateway allows', () => {
  const { total, forOperators } = openCallBounds.follow;
  expect(4 * (total - forOperators)).toBeLessThan(128);
});
