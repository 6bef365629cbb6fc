/** What ended stays ended: also where there is no room to remember it, and without a write of the disk for each end. */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { Commit } from '../../schemas/commit.ts';
import { type EventData, toStored } from '../../schemas/events.ts';
import { known } from '../../test/support/commits.ts';
import { quiet } from '../../test/support/fleet.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { EndedSessions } from './ended-sessions.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-ended-'));
const opened: EndedSessions[] = [];
afterEach(() => {
  for (const ended of opened.splice(0)) ended.close();
  rmSync(dir, { recursive: true, force: true });
});

const head = { log: 'test-log', seq: 1, hash: 'h', signers: [] };

/** Reads nothing of the log: all of it is in its file, or arrives. */
async function open(endedMax?: number): Promise<EndedSessions> {
  const snapshot = { log: null, seq: 0, head, nextOffset: 1 } as unknown as ConstructorParameters<
    typeof EndedSessions
  >[0]['snapshot'];
  const log = new MemoryLog(new MemoryTopic());
  const path = join(dir, 'sessions.json');
  const ended = new EndedSessions({ path, snapshot, log, logger: quiet, ...(endedMax && { endedMax }) });
  await ended.ready();
  opened.push(ended);
  return ended;
}

const hoursMs = 3600_000;
const inHours = (hours: number): number => Date.now() + hours * hoursMs;
const subject = (n: number): string => `${n}`.padStart(64, '0');

function commitOf(...ends: readonly EventData<'session.ended'>[]): Commit {
  const events = ends.map((data) => toStored(known('session.ended', data)));
  return {
    v: 1,
    log: 'test-log',
    seq: 5,
    prev: '',
    id: 'c',
    at: '',
    by: 'ana',
    command: '',
    events,
  } as unknown as Commit;
}
const end = (kind: 'link' | 'session' | 'person', n: number, hours: number) =>
  ({ kind, subject: subject(n), until: new Date(inHours(hours)).toISOString() }) as const;

test('a link that was used stays used, however many sessions end after it', async () => {
  const ended = await open(100);
  ended.onCommits([commitOf(end('link', 1, 30 * 24))]);
  for (let n = 0; n < 500; n++) ended.onCommits([commitOf(end('session', n, 1 + n / 1000))]);
  expect(ended.hasEnded('link', subject(1), inHours(30 * 24))).toBe(true);
  // A link that nobody used is none of those that may have been forgotten.
  expect(ended.hasEnded('link', subject(2), inHours(1))).toBe(false);
});

test('what had to be forgotten is refused, with all that ends no later', async () => {
  const ended = await open(100);
  for (let n = 0; n < 200; n++) ended.onCommits([commitOf(end('session', n, 1 + n / 100))]);
  for (let n = 0; n < 200; n++)
    expect([n, ended.hasEnded('session', subject(n), inHours(1 + n / 100) - 1000)]).toEqual([n, true]);
  expect(ended.hasEnded('session', subject(900), inHours(0.9))).toBe(true);
  expect(ended.hasEnded('session', subject(900), inHours(7))).toBe(false);
});

test('a burst of ends is one write of the file, and all of them are in it after a stop', async () => {
  const ended = await open();
  const path = join(dir, 'sessions.json');
  const files = new Set([statSync(path).ino]);
  for (let n = 0; n < 200; n++) {
    ended.onCommits([commitOf(end('session', n, 8))]);
    files.add(statSync(path).ino);
  }
  expect(files.size).toBe(1);
  ended.close();
  expect(statSync(path).size).toBeGreaterThan(200 * 64);
});
