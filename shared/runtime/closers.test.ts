/** Tests that resources are closed in reverse order, and that failures are logged. */
import { expect, test } from 'vitest';
import { Closers } from './closers.ts';

test('a failed step is logged, and the others still run, once', async () => {
  const lines: object[] = [];
  const closers = new Closers({ error: (fields) => lines.push(fields) });
  const order: string[] = [];
  const failure = new Error('the file was removed');
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
