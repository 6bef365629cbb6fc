import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { PositionStore } from '../../shared/snapshot/position.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { tableNames, tableSpecs } from '../../shared/snapshot/tables.ts';
import { PastStateCache } from '../../shared/snapshot/views.ts';
import { firstMomentMs, fleetHistory, known, recordsOf } from '../../test/support/commits.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { findSetCommit } from '../explain/because.ts';
import type { EventSearch } from './event-search.ts';
import { History } from './history.ts';
import { openHistory } from './history-file.ts';
import { PastStates } from './past.ts';
import { pastState } from './tables.ts';
import { trimHistory } from './trim.ts';

let dir: string;
let path: string;
beforeEach(() => {
  dir = folderOfTest('history');
  path = join(dir, 'history.db');
});

interface TestHistory {
  readonly past: PastStates;
  readonly present: Snapshot;
  readonly notes: string[];
  stop(): Promise<void>;
  /** Returns the rows as they were after a commit, which the history must contain. */
  rowsAt(seq: number): Database;
}

function open(records: readonly LogRecord[], bytesMax?: number): TestHistory {
  const topic = new MemoryTopic();
  for (const { value } of records) topic.add(value);
  const present = memorySnapshot();
  present.apply(records);
  const notes: string[] = [];
  const history = new History({
    path,
    bytesMax,
    openLog: async () => new MemoryLog(topic),
    note: (message, because) => notes.push(`${message}: ${because}`),
  });
  const past = new PastStates({ present, history });
  const databases = new PastStateCache(path);
  const stop = async (): Promise<void> => {
    databases.close();
    await history.stop();
  };
  onTestFinished(stop);
  return { past, present, notes, stop, rowsAt: (seq) => databases.at(present.log, pastState(seq)) };
}

const rowsOf = (db: Database): unknown =>
  tableNames.map((name) =>
    db
      .prepare(`SELECT ${Object.keys(tableSpecs[name].columns).join()} FROM ${name}`)
      .all()
      .map((row) => JSON.stringify(row))
      .sort(),
  );

test('at every position, rows and digests are those of a fold up to it', async () => {
  const records = recordsOf(fleetHistory(7, 120));
  const { past, rowsAt } = open(records);
  const folded = memorySnapshot();
  for (const [index, record] of records.entries()) {
    folded.apply([record]);
    expect((await past.at(index + 1)).seq).toBe(index + 1);
    expect(await past.digestsAt(index + 1)).toEqual(folded.digests());
    expect(rowsOf(rowsAt(index + 1))).toEqual(rowsOf(folded.db));
  }
});

test('digests continue from every thousandth commit, and so does a reopened file', async () => {
  const records = recordsOf(fleetHistory(11, 1060));
  const first = open(records.slice(0, 1030));
  expect((await first.past.at(1020)).seq).toBe(1020);
  await first.stop();
  const again = open(records);
  const folded = memorySnapshot();
  folded.apply(records.slice(0, 1050));
  expect(await again.past.digestsAt(1050)).toEqual(folded.digests());
  expect(again.notes).toEqual([]);
});

/** Ways to damage the file, each with its name. */
const spoil: [string, (db: Database) => void][] = [
  ['another position', (db) => db.exec('UPDATE position SET seq = seq - 1')],
  [
    'a checkpoint that differs',
    (db) => {
      const positions = new PositionStore(db);
      positions.write({ ...positions.read(), divergedAt: 40 });
    },
  ],
  ['a view that runs code', (db) => db.exec('CREATE VIEW extra AS SELECT 1')],
  ['another build', (db) => db.pragma('user_version = 1')],
];

test.each(spoil)('a file with %s is discarded and rebuilt', async (_what, damage) => {
  const records = recordsOf(fleetHistory(13, 90));
  const first = open(records);
  await first.past.ask('past', [records.length]);
  await first.stop();
  const db = openDatabase(path, { durability: 'normal' });
  damage(db);
  db.close();
  const again = open(records);
  const folded = memorySnapshot();
  folded.apply(records.slice(0, 60));
  for (;;) {
    const state = await again.past.at(60).catch(() => undefined);
    if (state && again.notes.length > 0) {
      expect(rowsOf(again.rowsAt(60))).toEqual(rowsOf(folded.db));
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(again.notes.join()).toContain('history.db is being rebuilt from the log');
});

test('a history that is too large is truncated at its old end, and the rest stays complete', async () => {
  const records = recordsOf(fleetHistory(19, 4200));
  const bytesMax = 2 * 1024 * 1024;
  const cutting = open(records, bytesMax);
  await until(async () => {
    const refused = await cutting.past.ask('show', [2]).catch((error: Error) => error.message);
    return String(refused).includes('the history of this control plane begins at position');
  });
  await cutting.past.ask('past', [records.length]);
  await cutting.stop();
  expect(cutting.notes).toEqual([]);
  const { snapshot } = openHistory(path, null);
  const pages = (name: string) => Number(snapshot.db.pragma(name, { simple: true }));
  const used = () => (pages('page_count') - pages('freelist_count')) * pages('page_size');
  // The thread may have stopped between a cut and the clean-up after it, so complete one more cut.
  for (const _ of trimHistory(snapshot.db, Math.min(bytesMax, used() - 1)));
  const value = (sql: string) => Number(snapshot.db.prepare(sql).pluck().get());
  const first = value('SELECT min(seq) FROM span');
  expect(first).toBeGreaterThan(1);
  expect(value('SELECT min(seq) FROM subject')).toBe(first);
  expect(used()).toBeLessThan(bytesMax);
  snapshot.close();

  const { past, rowsAt, notes } = open(records);
  await past.ask('past', [records.length]);
  const folded = memorySnapshot();
  folded.apply(records.slice(0, first));
  for (let seq = first; seq <= records.length; seq += 100) {
    folded.apply(records.slice(folded.seq, seq));
    expect(await past.digestsAt(seq)).toEqual(folded.digests());
    expect(rowsOf(rowsAt(seq))).toEqual(rowsOf(folded.db));
  }
  const [end, before] = [records.length, first - 1];
  for (const asked of [
    past.ask('show', [before]),
    past.ask('digests', [before]),
    past.ask('changes', [end, before, end, 10]),
    past.ask('inverse', [before]),
    past.ask('positionAt', [end, firstMomentMs + 1000 * before]),
    past.moment(String(before)),
  ])
    await expect(asked).rejects.toThrow(`the history of this control plane begins at position ${first}`);
  expect((await past.ask('show', [first])).position).toBe(first);
  const search: EventSearch = {
    ...{ from: 1, to: end, order: 'asc', limit: 5, isExact: true },
    subjects: {},
  };
  const found = await past.ask('events', [end, search]);
  expect([found.begin, found.items[0]?.position, notes]).toEqual([first, first, []]);
});

test('a file that is not a database is discarded', async () => {
  writeFileSync(path, 'a text');
  const { past, notes } = open(recordsOf(fleetHistory(17, 20)));
  expect((await past.at(10)).seq).toBe(10);
  expect(notes).toHaveLength(1);
});

test('a moment can be a position, a time or an age, and comes with its clock', async () => {
  const { past } = open(recordsOf(Array.from({ length: 5 }, () => [known('no_op', {})])));
  const timeOf = (seq: number): number => firstMomentMs + seq * 1000;
  expect(await past.moment('3')).toEqual({ seq: 3, nowMs: timeOf(3) });
  const between = timeOf(4) + 500;
  expect(await past.moment(new Date(between).toISOString())).toEqual({ seq: 4, nowMs: between });
  expect((await past.moment('1s')).seq).toBe(6);
  await expect(past.moment('7')).rejects.toThrow('there is no position 7; the log is at 6');
  await expect(past.moment('2025-01-01T00:00:00Z')).rejects.toThrow('the log begins after this time');
  await expect(past.moment('2999-01-01T00:00:00Z')).rejects.toThrow('not in the past');
  await expect(past.moment('yesterday')).rejects.toThrow('at takes a position, a time');
});

test('a flapping node does not slow down reading its past, because versions are found by key', async () => {
  const health = Array.from({ length: 300 }, (_, n) => [
    known('node.health_changed', { id: 'n', owner: 'c', generation: 1, up: n % 2 === 0, models: ['m'] }),
  ]);
  const { past, rowsAt } = open(
    recordsOf([
      [
        known('node.registered', {
          id: 'n',
          place: { kind: 'pool' },
          url: 'http://n',
          dialect: 'vllm',
          agent: true,
        }),
      ],
      [known('node.joined', { id: 'n', owner: 'c', generation: 1 })],
      [known('pool.model_installed', { model: 'm' })],
      ...health,
    ]),
  );
  await past.at(150);
  const db = rowsAt(150);
  const plan = (sql: string, ...values: string[]): string =>
    (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[])
      .map(({ detail }) => detail)
      .join('\n');
  expect(plan('SELECT * FROM node')).toContain('SEARCH v USING PRIMARY KEY (id=? AND set_seq=?)');
  expect(plan(`SELECT * FROM routes WHERE place = 'pool' AND model = 'm'`)).toContain(
    'SEARCH k USING PRIMARY KEY (place=? AND model=?)',
  );
  expect(plan('SELECT * FROM api_key WHERE hash = ?', 'h')).toContain('past_api_key_by_hash (hash=?');
  // The node was never drained, so the commit that registered it is the one found, however often its health has changed.
  await past.at(300);
  const registered = { seq: 2, removed: false };
  expect(findSetCommit(rowsAt(300), 'node', 'n', 'drained_set_at')).toEqual(registered);
});
