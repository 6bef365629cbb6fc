import { join } from 'node:path';
import Fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { fleetHistory, recordsOf } from '../../test/support/commits.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { History } from '../history/history.ts';
import { PastStates } from '../history/past.ts';
import { createPastReader } from './context.ts';

/** Largest number of questions that one caller may have waiting. */
const waiters = 64;

interface Readers {
  /** Adds the missing last commit to the history. */
  complete(): void;
  /** Number of questions that were asked, and of those that left before they were answered. */
  readonly counts: { asked: number; left: number };
  /** Asks for the state at a position. Defaults to the last position, which the history does not contain yet. */
  ask(person: string, signal?: AbortSignal, seq?: number): Promise<number>;
}

async function readers(): Promise<Readers> {
  const dir = folderOfTest('past-readers');
  const records = recordsOf(fleetHistory(7, 20));
  const present = memorySnapshot();
  present.apply(records);
  // The history lacks the last commit, so a question about it has to wait.
  const topic = new MemoryTopic();
  for (const { value } of records.slice(0, -1)) topic.add(value);
  const history = new History({
    path: join(dir, 'history.db'),
    openLog: async () => new MemoryLog(topic),
    note: () => undefined,
  });
  const past = new PastStates({ present, history });
  const counts = { asked: 0, left: 0 };
  const app = Fastify({ forceCloseConnections: true });
  app.get('/:seq', (request, reply) => {
    counts.asked++;
    const { seq } = request.params as { seq: string };
    return past.ask('past', [Number(seq)], createPastReader(request, reply)).catch((error: Error) => {
      if (error.message === 'the client has left') counts.left++;
      throw error;
    });
  });
  onTestFinished(() => history.stop());
  onTestFinished(() => app.close());
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return {
    counts,
    complete: () => topic.add(records.at(-1)?.value ?? Buffer.alloc(0)),
    ask: async (person, signal, seq = present.seq) => {
      const headers = { 'x-headgate-as': person };
      const answer = await fetch(`${url}/${seq}`, { headers, signal: signal ?? null });
      await answer.arrayBuffer();
      return answer.status;
    },
  };
}

test('a client that disconnects while others read the past stops waiting, and may ask again at once', async () => {
  const { ask, counts, complete } = await readers();
  const others = [ask('vic'), ask('vera')];
  await until(() => counts.asked === others.length);
  const client = new AbortController();
  const waiting = Array.from({ length: waiters }, () => ask('vlad', client.signal).catch(() => 'left'));
  await until(() => counts.asked === others.length + waiters);
  client.abort();
  await Promise.all(waiting);
  await until(() => counts.left === waiters);
  const again = ask('vlad');
  await until(() => counts.asked === others.length + waiters + 1);
  complete();
  expect(await Promise.all([...others, again])).toEqual([200, 200, 200]);
});

test('a client that disconnects while its question waits gives its turn to the next', async () => {
  const { ask, counts } = await readers();
  const clients = [new AbortController(), new AbortController()];
  const waiting = clients.map(({ signal }, person) => ask(`waits-${person}`, signal).catch(() => 'left'));
  await until(() => counts.asked === clients.length);
  const next = ask('next', undefined, 1);
  await until(() => counts.asked === clients.length + 1);
  clients[0]?.abort();
  expect(await next).toBe(200);
  clients[1]?.abort();
  expect(await Promise.all(waiting)).toEqual(['left', 'left']);
  await until(() => counts.left === clients.length);
});
