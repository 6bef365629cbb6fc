/** Tests that ended sessions stay ended after a restart and while the disk rejects writes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Commit } from '../../schemas/events/commit.ts';
import { type EventData, toStored } from '../../schemas/events/events.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { known } from '../../test/support/commits.ts';
import { quiet } from '../../test/support/fleet.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { EndedSessions } from './ended-sessions.ts';

const path = join(folderOfFile('ended'), 'sessions.db');

const head = { log: 'test-log', seq: 1, hash: 'h', signers: [] };

/** Opens the store with an empty log, because all ends are in the file already or arrive later. */
async function open(at: object = { log: null, seq: 0 }): Promise<EndedSessions> {
  const snapshot = { ...at, head, nextOffset: 1 } as unknown as ConstructorParameters<
    typeof EndedSessions
  >[0]['snapshot'];
  const log = new MemoryLog(new MemoryTopic());
  const ended = new EndedSessions({ path, snapshot, log, logger: quiet });
  expect(ended.isReady()).toBe(false);
  await ended.ready();
  expect(ended.isReady()).toBe(true);
  onTestFinished(() => ended.close());
  return ended;
}

const hoursMs = 3600_000;
const inHours = (hours: number): number => Date.now() + hours * hoursMs;
const subject = (n: number): string => `${n}`.padStart(64, '0');

function commitAt(seq: number, ...ends: readonly EventData<'session.ended'>[]): Commit {
  const events = ends.map((data) => toStored(known('session.ended', data)));
  return {
    v: 1,
    log: 'test-log',
    seq,
    prev: '',
    id: 'c',
    at: new Date().toISOString(),
    by: 'ana',
    command: '',
    events,
  } as unknown as Commit;
}
const end = (kind: 'link' | 'session' | 'person', n: number, hours: number) =>
  ({ kind, subject: subject(n), until: new Date(inHours(hours)).toISOString() }) as const;

/** Opens the store again after the whole log has been read. */
const again = () => open({ log: 'test-log', seq: 1 });

test('ended sessions stay ended after a start, however many end later, and no others have ended', async () => {
  const before = await open();
  before.onCommits([commitAt(3, end('link', 1, 30 * 24), end('person', 2, 8))]);
  for (let n = 0; n < 500; n++) before.onCommits([commitAt(10 + n, end('session', n, 8))]);
  const check = (ended: EndedSessions): void => {
    expect(ended.hasEnded('link', subject(1))).toBe(true);
    expect([0, 499, 500].map((n) => ended.hasEnded('session', subject(n)))).toEqual([true, true, false]);
    expect(ended.hasEnded('link', subject(2))).toBe(false);
    expect([2, 3].map((position) => ended.hasPersonEnded(subject(2), position))).toEqual([true, false]);
  };
  check(before);
  before.close();
  check(await again());
});

test('an end is forgotten once its session would have expired anyway', async () => {
  const ended = await open();
  ended.onCommits([commitAt(3, end('session', 1, -1), end('session', 2, 1))]);
  expect([1, 2].map((n) => ended.hasEnded('session', subject(n)))).toEqual([false, true]);
});

test('an end that the disk rejects still counts, and is written with the next one', async () => {
  const before = await open();
  const other = openDatabase(path, { durability: 'normal' });
  other.exec('BEGIN IMMEDIATE');
  before.onCommits([commitAt(3, end('session', 1, 8), end('person', 1, 8))]);
  expect([before.hasEnded('session', subject(1)), before.hasPersonEnded(subject(1), 2)]).toEqual([
    true,
    true,
  ]);
  other.exec('ROLLBACK');
  other.close();
  before.onCommits([commitAt(4, end('session', 2, 8))]);
  before.close();
  const after = await again();
  expect([1, 2].map((n) => after.hasEnded('session', subject(n)))).toEqual([true, true]);
});

test('a file of another log is ignored, and a damaged file is replaced', async () => {
  const first = await open();
  first.onCommits([commitAt(3, end('session', 1, 8))]);
  first.close();
  const other = await open();
  expect(other.hasEnded('session', subject(1))).toBe(false);
  other.close();
  writeFileSync(path, 'no database');
  const fresh = await open();
  fresh.onCommits([commitAt(3, end('session', 2, 8))]);
  expect(fresh.hasEnded('session', subject(2))).toBe(true);
});
