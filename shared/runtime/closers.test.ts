/** What was opened is released in the opposite order, and what could not be released is in the log. */
import { expect, test } from 'vitest';
import { Closers } from './closers.ts';

test('a step that fails is logged, and the others still have theirs, once', async () => {
  const lines: object[] = [];
  const closers = new Closers({ error: (fields) => lines.push(fields) });
  const order: string[] = [];
  const failure = new Error('the file is gone');
  closers.add(() => void order.push('first'));
  closers.add(async () => {
    throw failure;
  });
  closers.add(() => void order.push('last'));
  await closers.close();
  await closers.close();
  expect(order).toEqual(['last', 'first']);
  expect(lines).toEqual([{ err: failure }]);
});
