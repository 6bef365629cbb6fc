// Tests that old usage rows and old keys are removed once and completely, wherever the removal is interrupted. Sends SIGKILL
// before each step of a removal and between the commits that forget keys, then restarts on what remains.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { checkUsage } from '../../control-plane/usage/check-usage.ts';
import { RowMover } from '../../control-plane/usage/row-mover.ts';
import { openUsageStore } from '../../control-plane/usage/usage-store.ts';
import { dayMs } from '../../schemas/durations.ts';
import { controlTopic } from '../../schemas/events/commit.ts';
import { toStored } from '../../schemas/events/events.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { ChainWriter, known, sha256 } from '../support/commits.ts';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { usageMac } from '../support/usage-mac.ts';

const folder = mkdtempSync(join(tmpdir(), 'headgate-removals-'));
const fleet = new ProcessFleet();
afterAll(async () => {
  await fleet.close();
  rmSync(folder, { recursive: true });
});

const daysAgo = (days: number): string => new Date(Date.now() - days * dayMs).toISOString();
const rowsOfDay = 700;
/** The first two of these days are too old to keep, and the other two are kept. */
const days = [daysAgo(9), daysAgo(8), daysAgo(3), daysAgo(2)];
const keepDays = 5;
const built = (path: string): string => JSON.stringify(pathToFileURL(resolve('dist', path)).href);

/**
 * A program that removes old rows and kills itself before its n-th step. A step records a move, moves a batch of rows,
 * records a removal or removes a file.
 */
const program = `
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
const [path, keepDays, at] = process.argv.slice(2);
let left = Number(at);
const step = () => { if (--left === 0) { process.kill(process.pid, 'SIGKILL'); for (;;); } };
const { rmSync } = fs;
fs.rmSync = (file, ...rest) => { if (fs.existsSync(file)) step(); rmSync(file, ...rest); };
syncBuiltinESMExports();
const { openUsageStore } = await import(${built('control-plane/usage/usage-store.js')});
const { RowMover } = await import(${built('control-plane/usage/row-mover.js')});
const store = openUsageStore(path, { keepRows: true });
for (const name of ['noteMoved', 'removeMoved', 'removeBefore']) {
  const real = store.rows[name].bind(store.rows);
  store.rows[name] = (...args) => { step(); return real(...args); };
}
const logger = { info: () => {}, warn: () => {}, error: () => {}, fatal: () => {} };
const alive = setInterval(() => {}, 1000);
await new RowMover({ rows: store.rows, path, keepDays: Number(keepDays), logger }).move();
clearInterval(alive);
store.close();
`;

async function endOf(path: string, step: number): Promise<string | number | null> {
  const file = join(folder, 'remove.mjs');
  writeFileSync(file, program);
  const args = [file, path, String(keepDays), String(step)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code, signal] = await once(child, 'exit');
  return signal ?? code;
}

function open(path: string) {
  const store = openUsageStore(path, { keepRows: true, mac: usageMac });
  const quiet = () => undefined;
  const logger = { info: quiet, warn: quiet, error: quiet, fatal: quiet };
  return { store, mover: (keep: number) => new RowMover({ rows: store.rows, path, keepDays: keep, logger }) };
}

/** Fills a usage store. Half of each day's rows are already in the day's file, and half are still waiting to be moved. */
async function filled(path: string): Promise<void> {
  const { store, mover } = open(path);
  const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
  for (let half = 0; half < 2; half++) {
    const rows = days.flatMap((at, day) =>
      Array.from({ length: rowsOfDay / 2 }, (_, row) => {
        const n = (half * days.length + day) * (rowsOfDay / 2) + row + 1;
        const period = days[0]?.slice(0, 10);
        return {
          ...{ v: 1, incarnation, n, at, organisation: 'acme', period, draw: 'pool', model: 'echo-small' },
          ...{ promptTokens: 1, completionTokens: 1, requestId: `r-${n}` },
        };
      }),
    );
    const value = Buffer.from(JSON.stringify(rows));
    store.apply(0, [{ offset: half, value, signature: usageMac.of(value) }]);
    if (half === 0) await mover(100).move();
  }
  store.close();
}

test('removing days and moving rows survives a kill at any point', async () => {
  const origin = join(folder, 'origin');
  await filled(join(origin, 'usage.db'));
  let [steps, end]: [number, string | number | null] = [0, 'SIGKILL'];
  while (end === 'SIGKILL') {
    const left = join(folder, `left-${++steps}`);
    cpSync(origin, left, { recursive: true });
    const path = join(left, 'usage.db');
    end = await endOf(path, steps);
    const { store, mover } = open(path);
    // Reads all rows, which must be complete unless they have been removed.
    const read = (): number => store.requests({ limit: 10_000 }).length;
    expect([2 * rowsOfDay, 3 * rowsOfDay, 4 * rowsOfDay], `killed before step ${steps}`).toContain(
      2 * Math.ceil(read() / 2),
    );
    await mover(keepDays).move();
    expect([read(), checkUsage(path)], `after a kill before step ${steps}`).toEqual([2 * rowsOfDay, []]);
    expect(store.totals('acme', days[0]?.slice(0, 10) ?? '').requests).toBe(4 * rowsOfDay);
    const files = readdirSync(join(left, 'usage-rows')).filter((name) => name.endsWith('.db'));
    expect(files).toEqual(days.slice(2).map((at) => `${at.slice(0, 10)}.db`));
    store.close();
  }
  expect(end).toBe(0);
  // The steps are the record of the removal, one file per day, the record of the move, and several batches of rows.
  expect(steps).toBeGreaterThan(8);
});

const keys = 1_200;

/** Writes keys that were revoked long ago into a current log. */
async function writeKeys(): Promise<void> {
  const writer = new ChainWriter();
  const records = [
    writer.open(),
    writer.add([known('organisation.set', { id: 'acme', name: 'Acme', tier: null, anchor: '2026-01-01' })]),
  ];
  for (let from = 0; from < keys; from += 100) {
    const ids = Array.from({ length: 100 }, (_, n) => `key-${from + n}`);
    const key = (id: string) => ({ id, organisation: 'acme', name: id, hash: sha256(id) });
    records.push(
      writer.add(
        ids.map((id) => known('key.created', { ...key(id), expires: 'never' as const, expiresAt: null })),
      ),
    );
    records.push(writer.add(ids.map((id) => known('key.revoked', { id }))));
  }
  const named = known('organisation.set', { id: 'acme', name: 'Now', tier: null, anchor: '2026-01-01' });
  records.push(writer.addStored([toStored(named)], 'operator', new Date().toISOString()));
  const log = await openLog(fleet.logUrl, { topic: controlTopic });
  for (const { value } of records) await log.append(value);
  await log.close();
}

const keyCount = async (plane: Plane): Promise<number> =>
  Number((await fleet.admin(plane).run('key.list', { limit: 1 })).total);

test('expired keys are deleted in several commits, even if the control plane is killed between them', async () => {
  await writeKeys();
  const start = () => fleet.startPlane('plane', { flags: ['--forget-keys-after', '1d'] });
  const counts: number[] = [];
  for (let plane = await start(); ; plane = await start()) {
    const before = counts.at(-1) ?? keys;
    // A process learns the log's time only from records that it reads after its start, so append one.
    await fleet.admin(plane).run('organisation.create', { id: `other-${counts.length}`, name: 'Other' });
    await until(async () => (await keyCount(plane)) < before, 60_000);
    counts.push(await keyCount(plane));
    await plane.end('SIGKILL');
    if (counts.at(-1) === 0) break;
  }
  // Each commit forgets 500 keys, so the count must fall in steps of 500.
  expect(counts.every((count) => count === 0 || (keys - count) % 500 === 0)).toBe(true);
  expect(counts.length).toBeGreaterThan(1);
  const forgotten = await forgottenKeys();
  expect([forgotten.length, new Set(forgotten).size]).toEqual([keys, keys]);
});

async function forgottenKeys(): Promise<string[]> {
  const found: string[] = [];
  const log = await openLog(fleet.logUrl, { topic: controlTopic });
  for await (const records of batchesToEnd(log, { recordsMax: 500 }))
    for (const { value } of records) {
      const { events } = JSON.parse(value.toString()) as { events: { type: string; data: { id: string } }[] };
      found.push(...events.filter(({ type }) => type === 'key.forgotten').map(({ data }) => data.id));
    }
  await log.close();
  return found;
}
