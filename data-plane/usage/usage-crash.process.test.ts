import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { UsageReplicator } from '../../control-plane/usage/usage-replicator.ts';
import { openUsageStore, type PeriodUsage } from '../../control-plane/usage/usage-store.ts';
import { readUsageRecord, usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { runs } from '../../test/support/budget.ts';
import { openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';

const period = '2026-11-01';
const token = 'gateway-token-of-the-tests';
const mac = new RecordMac(usageTopic, token);
let folder: string;
const children = new Set<ChildProcess>();

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-crash-'));
});
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  rmSync(folder, { recursive: true });
});

function built(path: string): string {
  return JSON.stringify(pathToFileURL(resolve('dist', path)).href);
}

/**
 * A program that runs a gateway's row log, outbox and publisher without the gateway. `stage` names the moment at which the
 * process ends.
 */
const parts = `
import fs, { writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { open as openFile } from 'node:fs/promises';
import { openLog } from ${built('shared/log/open-log.js')};
import { RecordMac } from ${built('shared/log/core/record-mac.js')};
import { openOutbox } from ${built('data-plane/usage/outbox.js')};
import { Publisher } from ${built('data-plane/usage/publisher.js')};
import { openUsageLog } from ${built('data-plane/usage/usage-log.js')};
import { UsageWriter } from ${built('data-plane/usage/usage-writer.js')};
const [folder, seed, stage] = process.argv.slice(1);
let isArmed = false;
const end = (at) => {
  if (!isArmed || at !== stage) return;
  process.kill(process.pid, 'SIGKILL');
  // The signal comes to another thread, perhaps.
  for (;;);
};
// A group that was cut by a kill is reported, and the log of a database that was deleted.
const onError = (error) => { if (!/unreadable|of another database/.test(error.message)) throw error; };
const outbox = openOutbox({ path: folder + '/outbox.db', onError });
const log = openUsageLog(outbox.logStart(), () => outbox.file.safelyShipped);
await log.begin(0);
const writer = new UsageWriter({ log, onError });
const kept = () => writeSync(1, 'kept ' + writer.keptRows + '\\n');
writer.start(({ position }) => { end('kept'); outbox.follow(position); }, kept);
outbox.setOnCounted(() => end('counted'));
const open = async (partition) => {
  const topic = await openLog('sqlite:' + folder + '/log', { topic: 'headgate.usage', partition });
  const append = topic.append.bind(topic);
  topic.append = async (...record) => {
    end('to be published');
    const offset = await append(...record);
    end('published');
    return offset;
  };
  return topic;
};
const mac = new RecordMac('headgate.usage', '${token}');
const publisher = new Publisher({ outbox, mac, partitions: 1, open });
publisher.start();
writeSync(1, 'incarnation ' + outbox.incarnation + '\\n');
const usage = { at: '2026-11-21T10:00:00.000Z', organisation: 'acme', period: '${period}', draw: 'pool', model: 'echo-small', promptTokens: 1, completionTokens: 0 };
let recorded = 0;
const record = (count, isUrgent) => {
  for (let row = 0; row < count; row++) writer.add(JSON.stringify({ ...usage, requestId: seed + '-' + ++recorded }), isUrgent);
  writeSync(1, 'recorded ' + recorded + '\\n');
};
`;

/**
 * A program that prints `recorded N` before a group is recorded and `kept N` once it is written, each with a single write.
 */
const loaded = `${parts}
setInterval(() => { for (let count = 1; count <= 6; count++) record(count, seed % 2 === 0); }, 1);
`;

/** A program that writes whole groups and ends at the given stage of writing the last one. */
const staged = `${parts}
const handle = await openFile('/dev/null');
const files = Object.getPrototypeOf(handle);
await handle.close();
const { write } = files;
files.write = async function (bytes, offset, length, position) {
  end('before the write');
  if (isArmed && stage === 'half of the write') await write.call(this, bytes, offset, length >> 1, position);
  end('half of the write');
  const written = await write.call(this, bytes, offset, length, position);
  end('written');
  return written;
};
const { fdatasyncSync } = fs;
fs.fdatasyncSync = (file) => { end('to be synced'); fdatasyncSync(file); end('synced'); };
syncBuiltinESMExports();
for (let group = 0; group < 3; group++) { record(5, true); await writer.sendAll(); }
while (outbox.unshipped > 0) await new Promise((resolve) => setTimeout(resolve, 5));
isArmed = true;
record(5, true);
setTimeout(() => { throw new Error('it did not come to ' + stage); }, 20000);
`;

interface Life {
  readonly incarnation: string;
  readonly recorded: number;
  readonly kept: number;
}

/** Runs the program until it has recorded `rowsMin` rows, kills it within the next 10 ms, and returns its output. */
async function liveAndDie(seed: number, rowsMin: number): Promise<Life> {
  const args = ['--input-type=module', '-e', loaded, folder, String(seed)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  let output = '';
  let doomed = false;
  for await (const chunk of child.stdout) {
    output += chunk;
    const recorded = Number(
      output
        .match(/^recorded (\d+)\n/gm)
        ?.at(-1)
        ?.split(' ')[1] ?? 0,
    );
    if (doomed || recorded < rowsMin) continue;
    doomed = true;
    setTimeout(() => child.kill('SIGKILL'), Math.random() * 10);
  }
  await ended(child);
  return lifeIn(output);
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.signalCode === null && child.exitCode === null) await once(child, 'exit');
  expect(child.signalCode).toBe('SIGKILL');
  children.delete(child);
}

function lifeIn(output: string): Life {
  const last = (what: string): string =>
    output
      .match(new RegExp(`^${what} (\\S+)$`, 'gm'))
      ?.at(-1)
      ?.split(' ')[1] ?? '0';
  return {
    incarnation: last('incarnation'),
    recorded: Number(last('recorded')),
    kept: Number(last('kept')),
  };
}

const open = (partition: number) =>
  openLog(`sqlite:${join(folder, 'log')}`, { topic: usageTopic, partition }, { allowTrimmed: true });

/** Starts a process without load, which publishes the rows that the killed processes left behind. */
async function shipRest(): Promise<void> {
  const outbox = openOutbox({ path: join(folder, 'outbox.db') });
  const publisher = new Publisher({ outbox, mac, partitions: 1, open });
  publisher.start();
  await publisher.stop(30_000);
  expect(outbox.unshipped).toBe(0);
  outbox.close();
}

async function rebuild(name: string): Promise<{ totals: PeriodUsage; counts: object; parked: number }> {
  const store = openUsageStore(join(folder, name), { mac });
  const replicator = new UsageReplicator({ store, partitions: 1, open });
  replicator.start();
  expect(await replicator.caughtUp(30_000)).toBe(true);
  const result = { totals: store.totals('acme', period), counts: store.counts, parked: store.parkedRows };
  await replicator.stop();
  store.close();
  return result;
}

interface OnLog {
  /** Row numbers of each incarnation in the order of the usage log, without repeats. */
  readonly numbers: ReadonlyMap<string, number[]>;
  /** Numbers of the billed requests of each process, counted from its start. */
  readonly requests: ReadonlyMap<string, number[]>;
}

async function readLog(): Promise<OnLog> {
  const [numbers, requests] = [new Map<string, number[]>(), new Map<string, number[]>()];
  const add = (map: Map<string, number[]>, key: string, value: number) => {
    const values = map.get(key);
    if (values === undefined) map.set(key, [value]);
    else values.push(value);
  };
  const log = await open(0);
  const end = await log.end();
  for await (const batch of log.tail({ from: 0 })) {
    for (const { value } of batch.records)
      for (const { incarnation, n, row } of readUsageRecord(value).rows) {
        if (n <= (numbers.get(incarnation)?.at(-1) ?? 0)) continue;
        add(numbers, incarnation, n);
        const [life = '', request] = row?.requestId.split('-') ?? [];
        add(requests, life, Number(request));
      }
    if (batch.nextOffset >= end) break;
  }
  await log.close();
  return { numbers, requests };
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

const killsUnderLoad = runs({ fast: 8, full: 8 });

test(`Events: killed ${killsUnderLoad} times under load, billing repeats nothing, loses no accepted group and has no gap`, async () => {
  const lives: Life[] = [];
  for (let seed = 0; seed < killsUnderLoad; seed++)
    lives.push(await liveAndDie(seed, 40 + ((seed * 137) % 900)));
  await shipRest();
  const { numbers, requests } = await readLog();
  for (const shipped of numbers.values()) expect(shipped).toEqual(upTo(shipped.length));
  for (const [seed, { recorded, kept }] of lives.entries()) {
    const billed = (requests.get(String(seed)) ?? []).sort((one, other) => one - other);
    expect(billed).toEqual(upTo(billed.length));
    expect(billed.length).toBeGreaterThanOrEqual(kept);
    expect(billed.length).toBeLessThanOrEqual(recorded);
  }
  const all = [...numbers.values()].reduce((sum, { length }) => sum + length, 0);
  const first = await rebuild('usage-1.db');
  expect(first.totals).toMatchObject({ totalTokens: all, requests: all });
  expect(first.counts).toMatchObject({ applied: all, differing: 0, lost: 0, junk: 0, parked: 0 });
  expect(first.parked).toBe(0);
  expect((await rebuild('usage-2.db')).totals).toEqual(first.totals);
  expect(lives.some(({ kept }) => kept > 0)).toBe(true);
});

test.each([
  'before the write',
  'half of the write',
  'written',
  'kept',
  'to be synced',
  'synced',
  'counted',
  'to be published',
  'published',
])(
  'Events: ended three times at the stage "%s" of a group, it bills the stored rows, and nothing twice',
  async (stage) => {
    const lives: Life[] = [];
    for (let seed = 0; seed < 3; seed++) {
      const args = ['--input-type=module', '-e', staged, folder, String(seed), stage];
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      children.add(child);
      let output = '';
      for await (const chunk of child.stdout) output += chunk;
      await ended(child);
      lives.push(lifeIn(output));
    }
    await shipRest();
    const { numbers, requests } = await readLog();
    for (const shipped of numbers.values()) expect(shipped).toEqual(upTo(shipped.length));
    for (const [seed, { recorded, kept }] of lives.entries()) {
      const billed = (requests.get(String(seed)) ?? []).sort((one, other) => one - other);
      const isWritten = !['before the write', 'half of the write'].includes(stage);
      expect([recorded, billed]).toEqual([20, upTo(isWritten ? 20 : 15)]);
      expect(billed.length).toBeGreaterThanOrEqual(kept);
    }
    const all = [...numbers.values()].reduce((sum, { length }) => sum + length, 0);
    const { totals, counts, parked } = await rebuild('usage.db');
    expect(totals).toMatchObject({ totalTokens: all, requests: all });
    expect(counts).toMatchObject({ applied: all, differing: 0, lost: 0, junk: 0, parked: 0 });
    expect(parked).toBe(0);
  },
);

test('Events: deleting the outbox begins a new incarnation, and earlier bills stay unchanged', async () => {
  const first = await liveAndDie(2, 200);
  await shipRest();
  const before = await rebuild('usage-1.db');
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(folder, `outbox.db${suffix}`), { force: true });
  const second = await liveAndDie(4, 200);
  await shipRest();
  expect(second.incarnation).not.toBe(first.incarnation);
  const after = await rebuild('usage-1.db');
  expect(after.counts).toMatchObject({ differing: 0, parked: 0, lost: 0 });
  expect(after.totals.requests).toBeGreaterThan(before.totals.requests);
  expect(after.totals.requests).toBeLessThanOrEqual(first.recorded + second.recorded);
});

test('Events: a fold killed at any moment continues to the same totals', async () => {
  // A record on the usage log contains 500 rows, so each fold has read at least one record before it is killed.
  await liveAndDie(2, 3500);
  await shipRest();
  const folder2 = join(folder, 'usage.db');
  const folding = `
import { openLog } from ${built('shared/log/open-log.js')};
import { RecordMac } from ${built('shared/log/core/record-mac.js')};
import { openUsageStore } from ${built('control-plane/usage/usage-store.js')};
const mac = new RecordMac('headgate.usage', '${token}');
const store = openUsageStore(process.argv[1], { mac });
const log = await openLog(process.argv[2], { topic: 'headgate.usage' });
for await (const batch of log.tail({ from: store.nextOffset(0), recordsMax: 1 })) {
  store.apply(0, batch.records);
  process.stdout.write(batch.nextOffset + '\\n');
}`;
  for (let kills = 0; kills < 5; kills++) {
    const args = ['--input-type=module', '-e', folding, folder2, `sqlite:${join(folder, 'log')}`];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.add(child);
    const exited = once(child, 'exit');
    await Promise.race([once(child.stdout, 'data'), exited]);
    child.kill('SIGKILL');
    await exited;
    expect(child.signalCode).toBe('SIGKILL');
    children.delete(child);
  }
  const db = openDatabase(folder2, { durability: 'normal' });
  expect(db.prepare('SELECT next_offset FROM position').pluck().get()).toBeGreaterThan(0);
  db.close();
  const resumed = await rebuild('usage.db');
  const rebuilt = await rebuild('usage-rebuilt.db');
  expect(resumed.totals).toEqual(rebuilt.totals);
  expect(rebuilt.totals.requests).toBeGreaterThan(0);
});
