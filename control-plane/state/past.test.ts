import { expect, test } from 'vitest';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { known, recordsOf } from '../../test/support/commits.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { PastStates } from './past.ts';

const commits = 12;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function past(): Promise<PastStates> {
  const records = recordsOf(
    Array.from({ length: commits }, (_, rank) => [known('tier.set', { id: `T${rank}`, rank, models: '*' })]),
  );
  const log = new MemoryLog(new MemoryTopic());
  for (const { value } of records) await log.append(value);
  const present = memorySnapshot();
  present.apply(records);
  return new PastStates(log, present);
}

test('evicted states are closed, and the last ones stay open', async () => {
  const states = await past();
  const seen: Snapshot[] = [];
  for (let seq = 1; seq <= 10; seq++) seen.push(await states.at(seq));
  await turn();
  expect(seen.map(({ db }) => db.open)).toEqual([...Array(6).fill(false), ...Array(4).fill(true)]);
});

test('every reader gets an open state, though more are asked for at once than are kept', async () => {
  const states = await past();
  const read = Array.from({ length: 10 }, async (_, index) => {
    const state = await states.at(index + 1);
    return [state.seq, state.db.prepare('SELECT count(*) AS n FROM tier').get()];
  });
  expect(await Promise.all(read)).toEqual(
    Array.from({ length: 10 }, (_, index) => [index + 1, { n: index }]),
  );
});
