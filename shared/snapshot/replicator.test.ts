/**
 * Tests that the replicator keeps up with a log that is being written, never proves the snapshot fresher than it is, waits
 * for an unreachable log, and stops for good at permanent faults. It must never block the event loop for long, however large
 * the backlog is.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { runs } from '../../test/support/budget.ts';
import { ChainWriter, fleetHistory, known, sha256 } from '../../test/support/commits.ts';
import { forgePosition } from '../../test/support/forged-position.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import {
  type ControlLog,
  type LogBatch,
  type LogRecord,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
  type TailOptions,
} from '../log/core/control-log.ts';
import { openEmbeddedLog } from '../log/embedded/embedded-log.ts';
import { Freshness } from './freshness.ts';
import { memorySnapshot } from './open-snapshot.ts';
import { Replicator, type ReplicatorOptions } from './replicator.ts';
import { Snapshot } from './snapshot.ts';
import { verify } from './verify.ts';

function started(options: Partial<ReplicatorOptions> & { readonly log: ControlLog }) {
  const snapshot = options.snapshot ?? memorySnapshot();
  const replicator = new Replicator({ snapshot, ...options });
  replicator.start();
  onTestFinished(() => replicator.stop());
  return { snapshot, replicator };
}

function recordsOf(seed: number, commits: number, log = 'test-log'): LogRecord[] {
  const writer = new ChainWriter({ log });
  return [writer.open(), ...fleetHistory(seed, commits).map((events) => writer.add(events))];
}
function topicOf(records: readonly LogRecord[]): MemoryTopic {
  const topic = new MemoryTopic();
  for (const { value } of records) topic.add(value);
  return topic;
}
function foldedInto(records: readonly LogRecord[]): Snapshot {
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  return snapshot;
}
function digestsOf(records: readonly LogRecord[]) {
  return foldedInto(records).digests();
}

/** A log whose results the test can delay or replace. */
class StagedLog implements ControlLog {
  readonly #log: ControlLog;
  beforeBatch: () => Promise<void> = async () => undefined;
  beforeTail: () => void = () => undefined;
  answerEnd: (end: number) => Promise<number> = async (end) => end;

  constructor(log: ControlLog) {
    this.#log = log;
  }
  append(value: Uint8Array): Promise<number> {
    return this.#log.append(value);
  }
  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    if (options.signal) this.beforeTail();
    for await (const batch of this.#log.tail(options)) {
      await this.beforeBatch();
      yield batch;
    }
  }
  async end(): Promise<number> {
    return this.answerEnd(await this.#log.end());
  }
  close(): Promise<void> {
    return this.#log.close();
  }
}

const memory = async (): Promise<ControlLog> => new MemoryLog(new MemoryTopic());
const embedded = async (): Promise<ControlLog> => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-replicator-'));
  const log = await openEmbeddedLog({ folder, address: { topic: 'headgate.control' }, durability: 'normal' });
  onTestFinished(async () => {
    await log.close();
    rmSync(folder, { recursive: true });
  });
  return log;
};

test.each([
  ['in memory', memory],
  ['in a file', embedded],
])('the replicator keeps up with a log %s while it is written', async (_, open) => {
  const log = await open();
  const records = recordsOf(31, 300);
  const seen: number[] = [];
  const { snapshot, replicator } = started({
    log,
    onCommits: (commits) => seen.push(...commits.map(({ seq }) => seq)),
  });
  for (const { value } of records) await log.append(value);
  await replicator.caughtUp(10_000);
  expect(snapshot.seq).toBe(records.length);
  expect(snapshot.digests()).toEqual(digestsOf(records));
  expect(verify(snapshot.db).differing).toEqual([]);
  expect(seen).toEqual(records.map((_record, index) => index + 1));
  await vi.waitFor(() => expect(replicator.freshness.state()).toBe('ready'));
});

test('waiting for a position gives true once it is folded, and false at the deadline', async () => {
  const records = recordsOf(33, 5);
  const topic = topicOf(records.slice(0, 5));
  const { replicator } = started({ log: new MemoryLog(topic) });
  expect(await replicator.reached(5, 5000)).toBe(true);
  expect(await replicator.reached(6, 20)).toBe(false);
  const waiting = replicator.reached(6, 5000);
  topic.add((records[5] as LogRecord).value);
  expect(await waiting).toBe(true);
});

test('the replicator is caught up only with everything that the log contained when asked', async () => {
  const log = new StagedLog(new MemoryLog(topicOf(recordsOf(34, 5))));
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  log.beforeBatch = () => gate;
  const { snapshot, replicator } = started({ log });
  await expect(replicator.caughtUp(50)).rejects.toThrow(LogUnavailable);
  open();
  await replicator.caughtUp(5000);
  expect(snapshot.seq).toBe(6);
});

test('an end that the fold has not reached proves nothing', async () => {
  const log = new StagedLog(new MemoryLog(topicOf(recordsOf(35, 5))));
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const asked = new Promise<void>((resolve) => {
    log.answerEnd = async (end) => {
      resolve();
      return end;
    };
  });
  log.beforeBatch = () => gate;
  const { replicator } = started({ log, probeIntervalMs: 50 });
  await asked;
  // Waits longer than a freshness probe waits for the fold.
  await expect(replicator.caughtUp(150)).rejects.toThrow();
  expect(replicator.freshness.proven).toBe(false);
  open();
  await replicator.caughtUp(5000);
  await vi.waitFor(() => expect(replicator.freshness.proven).toBe(true));
});

test('a proof dates from before its end was requested, not from the response', async () => {
  const log = new StagedLog(new MemoryLog(topicOf(recordsOf(36, 5))));
  const replicator = new Replicator({ snapshot: memorySnapshot(), log });
  const steps: string[] = [];
  const { freshness } = replicator;
  const now = freshness.now.bind(freshness);
  let noted: unknown;
  freshness.now = () => {
    steps.push('moment');
    const moment = now();
    noted = moment;
    return moment;
  };
  const end = log.end.bind(log);
  log.end = () => {
    steps.push('asked');
    return end();
  };
  const proven = new Promise((resolve) => {
    freshness.prove = (moment) => {
      steps.push('proven');
      resolve(moment);
    };
  });
  replicator.start();
  onTestFinished(() => replicator.stop());
  expect(await proven).toBe(noted);
  // A proof is about a moment, so the log's end must have been requested after that moment.
  expect(steps.slice(steps.lastIndexOf('moment'), steps.lastIndexOf('proven'))).toContain('asked');
});

test('an end before the current offset proves nothing, and is reported', async () => {
  const records = recordsOf(37, 9);
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  const log = new StagedLog(new MemoryLog(topicOf(records)));
  // Blocks the identity check, so that only the freshness probe requests the log's end.
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  log.beforeBatch = () => held;
  let short = true;
  let ends = 0;
  log.answerEnd = async (end) => (short && ++ends > 1 ? end - 1 : end);
  const reaches: [boolean, string | undefined][] = [];
  const onReachabilityChange = (reachable: boolean, error?: Error) =>
    reaches.push([reachable, error?.message]);
  const { replicator } = started({ log, snapshot, onReachabilityChange });
  await vi.waitFor(() => expect(reaches).toEqual([[false, 'the log ends at 9, before offset 10']]));
  expect(replicator.freshness.proven).toBe(false);
  short = false;
  release();
  await vi.waitFor(() => expect(replicator.freshness.proven).toBe(true));
});

test('an unreachable log is retried with growing pauses, and its return is reported', async () => {
  const records = recordsOf(38, 20);
  const log = new StagedLog(new MemoryLog(topicOf(records)));
  const triedMs: number[] = [];
  log.beforeTail = () => {
    triedMs.push(performance.now());
    if (triedMs.length < 4) throw new LogUnavailable('away');
  };
  const reaches: boolean[] = [];
  const { snapshot, replicator } = started({
    log,
    onReachabilityChange: (reachable) => reaches.push(reachable),
  });
  await replicator.caughtUp(5000);
  expect(snapshot.digests()).toEqual(digestsOf(records));
  expect(reaches).toEqual([false, true]);
  const pauses = triedMs.slice(1).map((ms, index) => ms - (triedMs[index] as number));
  // Each pause is drawn from the upper half of 50, 100 and 200 ms. A timer may fire a millisecond early.
  for (const [index, pause] of pauses.entries()) expect(pause).toBeGreaterThanOrEqual(25 * 2 ** index - 2);
  expect(replicator.fault).toBeUndefined();
});

test('after a failed request, the log’s end is requested again at once, not after the probe interval', async () => {
  const log = new StagedLog(new MemoryLog(topicOf(recordsOf(41, 5))));
  let asked = 0;
  log.answerEnd = async () => {
    asked++;
    throw new LogUnavailable('away');
  };
  const freshness = new Freshness();
  freshness.prove(freshness.now());
  started({ log, freshness, probeIntervalMs: 600_000 });
  await vi.waitFor(() => expect(asked).toBeGreaterThan(3), { timeout: 20_000 });
});

test('the return of an idle log is also reported', async () => {
  const records = recordsOf(40, 5);
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  const log = new StagedLog(new MemoryLog(topicOf(records)));
  let failures = 3;
  log.answerEnd = async (end) => {
    if (failures-- > 0) throw new LogUnavailable('away');
    return end;
  };
  const reaches: boolean[] = [];
  const { replicator } = started({
    log,
    snapshot,
    onReachabilityChange: (reachable) => reaches.push(reachable),
  });
  await vi.waitFor(() => expect(replicator.freshness.proven).toBe(true));
  expect(reaches).toEqual([false, true]);
  expect(replicator.reachable).toBe(true);
});

test.each([
  ['truncated', (topic: MemoryTopic) => topic.truncate(3), LogTruncated],
  ['replaced', (topic: MemoryTopic) => topic.replace(), LogReplaced],
])('a log %s during use stops the replicator for good, and the rows are kept', async (_, harm, kind) => {
  const records = recordsOf(40, 20);
  const topic = topicOf(records);
  const faults: Error[] = [];
  const { snapshot, replicator } = started({
    log: new MemoryLog(topic),
    onFault: (error) => faults.push(error),
  });
  await replicator.caughtUp(5000);
  const digests = snapshot.digests();
  const waiting = replicator.reached(99, 60_000);
  harm(topic);
  await expect(waiting).rejects.toThrow(kind);
  expect(replicator.fault).toBeInstanceOf(kind);
  expect(faults).toEqual([replicator.fault]);
  expect(snapshot.digests()).toEqual(digests);
  for (const { value } of recordsOf(41, 30)) topic.add(value);
  await expect(replicator.reached(99, 20)).rejects.toBe(replicator.fault);
  expect(await replicator.reached(records.length, 20)).toBe(true);
  expect(snapshot.seq).toBe(records.length);
});

test.each([
  ['truncated while the replicator was away', recordsOf(42, 20).slice(0, 10), LogTruncated],
  ['that is a different one', recordsOf(42, 40, 'other-log'), LogReplaced],
])('a log %s stops the replicator before anything is folded', async (_, records, kind) => {
  const snapshot = memorySnapshot();
  snapshot.apply(recordsOf(42, 20));
  const digests = snapshot.digests();
  const { replicator } = started({ log: new MemoryLog(topicOf(records)), snapshot });
  await vi.waitFor(() => expect(replicator.fault).toBeInstanceOf(kind));
  expect(replicator.freshness.proven).toBe(false);
  expect(snapshot.digests()).toEqual(digests);
});

test.each([
  ['after the end of the log', '4611686018427387904'],
  ['at the end of the log, with commits between', '21'],
  ['before the folded records', '0'],
])('a snapshot whose next offset is %s resumes after its last commit', async (_, nextOffset) => {
  const records = recordsOf(46, 20);
  const { db } = foldedInto(records.slice(0, 8));
  forgePosition(db, `UPDATE position SET next_offset = ${nextOffset}`);
  const { snapshot, replicator } = started({
    log: new MemoryLog(topicOf(records)),
    snapshot: new Snapshot(db, ':memory:'),
  });
  await replicator.caughtUp(5000);
  expect(snapshot.digests()).toEqual(digestsOf(records));
  expect([snapshot.seq, snapshot.skipped, snapshot.nextOffset]).toEqual([21, 0, 21]);
});

test('a log that lost only skipped records is followed again from the last commit', async () => {
  const records = recordsOf(47, 10);
  const junk = { offset: 9, value: Buffer.from('junk'), signature: null };
  const topic = topicOf([...records.slice(0, 9), junk, junk]);
  const { snapshot, replicator } = started({ log: new MemoryLog(topic) });
  await replicator.caughtUp(5000);
  topic.truncate(9);
  await vi.waitFor(() => expect(replicator.fault).toBeInstanceOf(LogTruncated));
  for (const { value } of records.slice(9)) topic.add(value);
  const again = started({ log: new MemoryLog(topic), snapshot });
  await again.replicator.caughtUp(5000);
  expect(snapshot.digests()).toEqual(digestsOf(records));
});

test('a halt stops the replicator for good: earlier commits are reported, and nothing is proven any more', async () => {
  const writer = new ChainWriter();
  const records = [writer.open(), writer.add([known('no_op', {})])];
  const event = { type: 'galaxy.created', v: 1, critical: true, data: {} };
  const topic = topicOf([...records, writer.addStored([event]), writer.add([known('no_op', {})])]);
  const seen: number[] = [];
  const { snapshot, replicator } = started({
    log: new MemoryLog(topic),
    onCommits: (commits) => seen.push(...commits.map(({ seq }) => seq)),
  });
  await expect(replicator.caughtUp(5000)).rejects.toThrow(
    'the fold halted at commit 3: event type galaxy.created is not known to this build',
  );
  expect(seen).toEqual([1, 2]);
  expect(snapshot.seq).toBe(2);
  expect(replicator.freshness.proven).toBe(false);
});

test('a file that cannot be written stops the replicator for good', async () => {
  const topic = topicOf(recordsOf(43, 5));
  const snapshot = memorySnapshot();
  const { replicator } = started({ log: new MemoryLog(topic), snapshot });
  await replicator.caughtUp(5000);
  snapshot.db.exec(
    `CREATE TEMP TRIGGER fails BEFORE UPDATE ON position BEGIN SELECT RAISE(ABORT, 'no'); END`,
  );
  topic.add(Buffer.from('anything'));
  await vi.waitFor(() => expect(replicator.fault?.message).toBe('no'));
});

/**
 * Longest time for which the event loop may be blocked, in ms of processor time, which other processes on the machine cannot
 * lengthen. A fold that yields stays close to its slice's budget. A fold that does not yield blocks the loop for seconds.
 */
const heldMsMax = 50;

/** Returns the longest processor time between two turns of the event loop while `task` runs, in ms. */
async function longestHoldMs(task: () => Promise<void>): Promise<number> {
  let [heldMs, watching] = [0, true];
  let before = process.cpuUsage();
  const tick = (): void => {
    const { user, system } = process.cpuUsage(before);
    heldMs = Math.max(heldMs, (user + system) / 1000);
    before = process.cpuUsage();
    if (watching) setImmediate(tick);
  };
  setImmediate(tick);
  await task();
  // Waits for one more turn, so that a long turn that has just ended is measured too.
  await new Promise((resolve) => setTimeout(resolve, 5));
  watching = false;
  return heldMs;
}

/**
 * Returns the smallest of three measurements, because garbage collection and other work of the runtime rarely disturbs all
 * three.
 */
async function leastOfThree(round: () => Promise<number>): Promise<number> {
  return Math.min(await round(), await round(), await round());
}

/** Folds a topic from its start and returns the longest time for which it blocked the event loop, in ms. */
async function holdOfFold(topic: MemoryTopic, check: (snapshot: Snapshot) => void): Promise<number> {
  const { snapshot, replicator } = started({ log: new MemoryLog(topic) });
  const heldMs = await longestHoldMs(() => replicator.caughtUp(180_000));
  check(snapshot);
  await replicator.stop();
  return heldMs;
}

test('a long backlog of commits never holds the event loop for long', { timeout: 200_000 }, async () => {
  const writer = new ChainWriter();
  const topic = new MemoryTopic();
  const commits = runs({ fast: 5000, full: 15_000 });
  topic.add(writer.open().value);
  for (let n = 1; n <= commits; n++) {
    const data = { id: `key-${n}`, organisation: `org-${n % 100}`, name: 'a key', hash: sha256(`${n}`) };
    topic.add(writer.add([known('key.created', { ...data, expires: 'never', expiresAt: null })]).value);
    // Adds records that no reader accepts. Each of them is cheap, but together they must not hold the event loop for long
    // either.
    if (n % 10 === 0) topic.add(Buffer.from('{}'));
  }
  const fold = () => holdOfFold(topic, (snapshot) => expect(snapshot.seq).toBe(commits + 1));
  expect(await leastOfThree(fold)).toBeLessThan(heldMsMax);
});

test('a long run of skipped records never holds the event loop either', async () => {
  const topic = new MemoryTopic();
  const count = runs({ fast: 20_000, full: 30_000 });
  for (let n = 0; n < count; n++) topic.add(Buffer.from('{"v":1,"not":"a commit"}'));
  const fold = () => holdOfFold(topic, (snapshot) => expect(snapshot.skipped).toBe(count));
  expect(await leastOfThree(fold)).toBeLessThan(heldMsMax);
});

test('after the wall clock moved forward, a proof comes at once, but not without the log', async () => {
  const topic = topicOf(recordsOf(3, 5));
  let aheadMs = 0;
  const clock = () => ({ monotonicMs: performance.now(), wallMs: Date.now() + aheadMs });
  const log = new MemoryLog(topic);
  const freshness = new Freshness(clock);
  const { replicator } = started({ log, freshness, probeIntervalMs: 600_000 });
  await vi.waitFor(() => expect(freshness.state()).toBe('ready'));
  // Advances the clock once nothing is waiting any more.
  for (let step = 0; step < 3; step++) {
    aheadMs += 3_600_000;
    expect(freshness.state()).toBe('fenced');
    await Promise.all(Array.from({ length: 5 }, () => replicator.provenAgain(30_000)));
    expect(freshness.state()).toBe('ready');
  }
  await replicator.provenAgain(30_000);
  log.end = () => Promise.reject(new LogUnavailable('away'));
  aheadMs += 3_600_000;
  await replicator.provenAgain(30_000);
  expect([freshness.state(), replicator.reachable]).toEqual(['fenced', false]);
});
