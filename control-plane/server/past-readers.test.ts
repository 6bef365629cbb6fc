import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Fastify from 'fastify';
import { afterEach, expect, test } from 'vitest';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { fleetHistory, recordsOf } from '../../test/support/commits.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { History } from '../history/history.ts';
import { PastStates } from '../history/past.ts';
import { pastReaderOf } from './context.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
/** As many as one caller may have. */
const waiters = 64;

test('who leaves while others read the past waits no longer, and may ask again at once', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-past-readers-'));
  const records = recordsOf(fleetHistory(7, 20));
  const present = memorySnapshot();
  present.apply(records);
  // The history has all but the last commit, so who asks for it waits.
  const topic = new MemoryTopic();
  for (const { value } of records.slice(0, -1)) topic.add(value);
  const history = new History({
    path: join(dir, 'history.db'),
    openLog: async () => new MemoryLog(topic),
    note: () => undefined,
  });
  const past = new PastStates({ present, history });
  let asked = 0;
  let left = 0;
  const app = Fastify({ forceCloseConnections: true });
  app.get('/', (request, reply) => {
    asked++;
    return past.ask('past', [present.seq], pastReaderOf(request, reply)).catch((error: Error) => {
      if (error.message === 'the client has left') left++;
      throw error;
    });
  });
  closing.push(
    () => app.close(),
    () => history.stop(),
    () => rmSync(dir, { recursive: true }),
  );
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const ask = async (person: string, signal?: AbortSignal): Promise<number> => {
    const answer = await fetch(url, { headers: { 'x-headgate-as': person }, signal: signal ?? null });
    await answer.arrayBuffer();
    return answer.status;
  };
  const others = [ask('vic'), ask('vera')];
  await until(() => asked === others.length);
  const client = new AbortController();
  const waiting = Array.from({ length: waiters }, () => ask('vlad', client.signal).catch(() => 'left'));
  await until(() => asked === others.length + waiters);
  client.abort();
  await Promise.all(waiting);
  await until(() => left === waiters);
  const again = ask('vlad');
  await until(() => asked === others.length + waiters + 1);
  topic.add(records.at(-1)?.value ?? Buffer.alloc(0));
  expect(await Promise.all([...others, again])).toEqual([200, 200, 200]);
});
