import { expect, test } from 'vitest';
import { PersonTurns } from './person-turns.ts';

test('who leaves while others have their turns waits no longer, and may ask again at once', async () => {
  const turns = new PersonTurns();
  const here = new AbortController().signal;
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
