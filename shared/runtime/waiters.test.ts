/** Tests that a reader waits only for a change, and never longer than its signal allows. */
import { expect, test } from 'vitest';
import { howItWaits } from '../../test/support/turns.ts';
import { Waiters } from './waiters.ts';

test('a wait whose signal aborted before it began ends too, and leaves nothing behind', async () => {
  const waiters = new Waiters();
  await waiters.changedSince(waiters.changes, AbortSignal.abort());
  expect(waiters.size).toBe(0);
});

test('a wait ends at a change or at its signal, and leaves nothing behind in either case', async () => {
  const waiters = new Waiters();
  const closing = new AbortController();
  const changed = waiters.changedSince(waiters.changes, closing.signal);
  waiters.wake();
  await changed;
  const aborted = waiters.changedSince(waiters.changes, closing.signal);
  expect(waiters.size).toBe(1);
  closing.abort();
  await aborted;
  expect(waiters.size).toBe(0);
});

test('a loop that waits for the next change each time does wait', async () => {
  const waiters = new Waiters();
  const timer = setInterval(() => waiters.wake(), 1);
  expect(await howItWaits(() => waiters.changedSince(waiters.changes))).toBe('waited');
  clearInterval(timer);
});

test('a wait with a deadline ends at the next change or at the deadline, and leaves nothing behind', async () => {
  const waiters = new Waiters();
  waiters.wake();
  const next = waiters.next(3_600_000);
  expect(waiters.size).toBe(1);
  waiters.wake();
  await next;
  await waiters.next(1);
  await waiters.next(-1);
  expect(waiters.size).toBe(0);
});
