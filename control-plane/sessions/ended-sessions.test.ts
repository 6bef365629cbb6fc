/** What ended stays ended: also where there is no room to remember it, and without a write of the disk for each end. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Commit } from '../../schemas/events/commit.ts';
import { type EventData, toStored } from '../../schemas/events/events.ts';
import { known } from '../../test/support/commits.ts';
import { quiet } from '../../test/support/fleet.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { EndedSessions, endedPerHolderMax } from './ended-sessions.ts';

const dir = folderOfFile('ended');

const head = { log: 'test-log', seq: 1, hash: 'h', signers: [] };

/** Reads nothing of the log: all of it is in its file, or arrives. */
async function open(endedMax?: number, at: object = { log: null, seq: 0 }): Promise<EndedSessions> {
  const snapshot = { ...at, head, nextOffset: 1 } as unknown as ConstructorParameters<
    typeof EndedSessions
  >[0]['snapshot'];
  const log = new MemoryLog(new MemoryTopic());
  const path = join(dir, 'sessions.json');
  const ended = new EndedSessions({ path, snapshot, log, logger: quiet, ...(endedMax && { endedMax }) });
  expect(ended.isReady()).toBe(false);
  await ended.ready();
  expect(ended.isReady()).toBe(true);
  onTestFinished(() => ended.close());
  return ended;
}

const hoursMs = 3600_000;
const inHours = (hours: number): number => Date.now() + hours * hoursMs;
const subject = (n: number): string => `${n}`.padStart(64, '0');

function commitOf(...ends: readonly EventData<'session.ended'>[]): Commit {
  return commitAt(5, ...ends);
}

function commitAt(seq: number, ...ends: readonly EventData<'session.ended'>[]): Commit {
  const events = ends.map((data) => toStored(known('session.ended', data)));
  return {
    v: 1,
    log: 'test-log',
    seq,
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

test('who signs in and out without end fills no list, and ends no sessions but their own', async () => {
  const ended = await open(2 * endedPerHolderMax);
  const mine = { ...end('session', 1_000_000, 8), holder: 'ben' };
  ended.onCommits([commitAt(3, mine)]);
  for (let n = 0; n < 5000; n++)
    ended.onCommits([commitAt(10 + n, { ...end('session', n, 8), holder: 'mallory' })]);
  // Nothing of others was forgotten, so nothing of others is refused: neither a session that began long ago nor any that ends soon.
  expect(ended.hasEnded('session', subject(2_000_000), inHours(0.1))).toBe(false);
  expect(ended.hasEnded('session', subject(1_000_000), inHours(8))).toBe(true);
  expect([ended.hasPersonEnded('ben', 0), ended.hasPersonEnded('operator', 0)]).toEqual([false, false]);
  // Each of the own that ended is over: by its id, or by where it began, just before its end.
  const alive = [...Array(5000).keys()].filter(
    (n) => !ended.hasEnded('session', subject(n), inHours(8)) && !ended.hasPersonEnded('mallory', 9 + n),
  );
  expect(alive).toEqual([]);
  // What began after the oldest of the ends that are kept continues.
  expect(ended.hasPersonEnded('mallory', 10 + 5000 - endedPerHolderMax)).toBe(false);
});

test('the uses of one organisation’s links that end first are forgotten, and so are refused', async () => {
  const endedMs = Date.now() + 8 * hoursMs;
  const used = (n: number) =>
    ({
      kind: 'link',
      subject: subject(n),
      until: new Date(endedMs + n).toISOString(),
      holder: 'links:acme',
    }) as const;
  const before = await open();
  for (let n = 0; n < endedPerHolderMax + 10; n++) before.onCommits([commitAt(10 + n, used(n))]);
  before.close();
  // The same after a start.
  for (const ended of [before, await open(undefined, { log: 'test-log', seq: 1 })]) {
    for (let n = 0; n < endedPerHolderMax + 10; n++)
      expect([n, ended.wasUsed(subject(n), endedMs + n, 'links:acme')]).toEqual([n, true]);
    // Those that nobody used hold where they end later than what was forgotten, and those of others in any case.
    expect(ended.wasUsed(subject(900), endedMs + 9, 'links:acme')).toBe(true);
    expect(ended.wasUsed(subject(900), endedMs + 10, 'links:acme')).toBe(false);
    expect(ended.wasUsed(subject(900), endedMs, 'links:birch')).toBe(false);
    expect(ended.wasUsed(subject(900), endedMs, undefined)).toBe(false);
    expect(ended.hasPersonEnded('links:acme', 0)).toBe(false);
  }
});

test('what was forgotten of the links of one holder is kept of no more holders than have a share of the list', async () => {
  const ended = await open(2 * endedPerHolderMax);
  const endedMs = Date.now() + 8 * hoursMs;
  for (let at = 0; at < 8; at++)
    for (let n = 0; n <= endedPerHolderMax; n++) {
      const until = new Date(endedMs + at * 1000 + n).toISOString();
      const used = { kind: 'link', subject: subject(1000 * at + n), until, holder: `links:${at}` } as const;
      ended.onCommits([commitAt(10 + n, used)]);
    }
  ended.close();
  const { forgottenLinksMs } = JSON.parse(readFileSync(join(dir, 'sessions.json'), 'utf8'));
  expect(Object.keys(forgottenLinksMs).length).toBeLessThanOrEqual(2);
  for (let at = 0; at < 8; at++)
    expect(ended.wasUsed(subject(1000 * at), endedMs + at * 1000, `links:${at}`)).toBe(true);
});

test('a replica that starts again holds the same against the same holder', async () => {
  const before = await open();
  for (let n = 0; n < endedPerHolderMax; n++)
    before.onCommits([commitAt(10 + n, { ...end('session', n, 8), holder: 'mallory' })]);
  before.close();
  const after = await open(undefined, { log: 'test-log', seq: 1 });
  expect(after.hasPersonEnded('mallory', 0)).toBe(false);
  after.onCommits([commitAt(9000, { ...end('session', 9000, 8), holder: 'mallory' })]);
  expect([after.hasPersonEnded('mallory', 9), after.hasPersonEnded('mallory', 10)]).toEqual([true, false]);
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
