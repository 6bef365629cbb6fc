// Tests that a question whose client has left does not occupy the history thread. Runs the built thread on a real log that
// does not contain the requested position yet, so that the question has to wait.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { controlTopic } from '../../schemas/events/commit.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { createLogger } from '../../shared/runtime/logger.ts';
import { fleetHistory, recordsOf } from '../../test/support/commits.ts';
import type { FromThread, ThreadData, ToThread } from './thread-messages.ts';

/** Returns the path of a built file, because threads can only run built code. */
const builtFile = (name: string): string =>
  new URL(`../../dist/control-plane/history/${name}`, import.meta.url).pathname;
const { HistoryThread } = (await import(builtFile('open-history.js'))) as typeof import('./open-history.ts');

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

test('a cancelled question also ends in the history thread', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-history-thread-'));
  const records = recordsOf(fleetHistory(7, 20));
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const log = await openLog(logUrl, { topic: controlTopic });
  for (const { value } of records) await log.append(value);
  const data: ThreadData = { path: join(dir, 'history.db'), logUrl };
  const thread = new Worker(builtFile('worker-entry.js'), { workerData: data });
  const ended = once(thread, 'exit');
  const send = (message: ToThread): void => thread.postMessage(message);
  closing.push(
    () => send({ stop: true }),
    () => ended,
    () => log.close(),
    () => rmSync(dir, { recursive: true }),
  );
  send({ id: 1, name: 'past', args: [records.length + 1] });
  send({ cancel: 1 });
  // If the wait had timed out instead, the error would be Busy.
  const [answer] = (await once(thread, 'message')) as [FromThread];
  expect(answer).toMatchObject({ id: 1, error: { message: 'This operation was aborted' } });
});

test('a disconnected client’s question ends at once, and asked again is answered once its commit arrives', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-open-history-'));
  const records = recordsOf(fleetHistory(7, 20));
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const log = await openLog(logUrl, { topic: controlTopic });
  for (const { value } of records.slice(0, -1)) await log.append(value);
  const history = new HistoryThread({
    path: join(dir, 'history.db'),
    logUrl,
    logger: createLogger('test', 'silent'),
  });
  closing.push(
    () => history.stop(),
    () => log.close(),
    () => rmSync(dir, { recursive: true }),
  );
  const last = records.length;
  const stays = new AbortController();
  expect((await history.ask('past', [last - 1], stays.signal)).atMs).toBeGreaterThan(0);

  const client = new AbortController();
  const waiting = history.ask('past', [last], client.signal);
  client.abort(new Error('the client has left'));
  await expect(waiting).rejects.toThrow('the client has left');
  await expect(history.ask('past', [1], client.signal)).rejects.toThrow('the client has left');

  const again = history.ask('past', [last], stays.signal);
  await log.append(records.at(-1)?.value ?? Buffer.alloc(0));
  expect((await again).atMs).toBeGreaterThan(0);
});
