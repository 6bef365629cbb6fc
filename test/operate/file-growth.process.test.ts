/**
 * Tests that no file that a process writes grows without bound while the process runs. Uses real processes and ten thousand
 * commits, and checks every file.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { openLog } from '../../shared/log/open-log.ts';
import { dataFiles, fileKinds, isOvergrown } from '../../shared/runtime/data-files.ts';
import { walBytesMax } from '../../shared/runtime/sqlite.ts';
import { fleetHistory, recordsOf } from '../support/commits.ts';
import { type GatewayProcess, type Plane, ProcessFleet } from '../support/process-fleet.ts';

const fleet = new ProcessFleet();
afterAll(() => fleet.close());

const commits = 10_000;
const recordsAtOnce = 100;
/** Size of the control log per commit, in bytes, including signatures and indexes. */
const logBytesPerCommit = 4096;

async function numberAt(url: string, text: RegExp): Promise<number> {
  const page = await (await fetch(url)).text();
  return Number(text.exec(page)?.[1] ?? Number.NaN);
}

test('after ten thousand commits and at all times before, every file is within its bound', {
  timeout: 300_000,
}, async () => {
  const records = recordsOf(fleetHistory(11, commits));
  const log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
  const append = (from: number, to: number) =>
    Promise.all(records.slice(from, to).map(({ value, signature }) => log.append(value, signature)));
  // Do not create a node yet, because the control plane would put a commit about the node between the prepared commits.
  await append(0, 1);
  const plane = await fleet.serve<Plane['ready']>('control-plane', 'plane');
  const gateway = await fleet.serve<GatewayProcess['ready']>('gateway', 'gateway');
  const folders = ['plane', 'gateway'].map((name) => join(fleet.dir, name));
  const overgrown = new Set<string>();
  let longestWal = 0;
  const look = () => {
    for (const folder of folders)
      for (const file of dataFiles(folder)) {
        if (isOvergrown(file)) overgrown.add(file.name);
        if (file.name === 'state.db-wal') longestWal = Math.max(longestWal, file.bytes);
      }
  };
  // The first query creates the history.
  await fleet.admin(plane).call('GET', '/changes?from=1');
  for (let from = 1; from < records.length; from += recordsAtOnce) {
    await append(from, from + recordsAtOnce);
    look();
  }
  const folded = () => numberAt(`${gateway.ready.metrics}/readyz?verbose`, /at (\d+), digest/);
  // The control plane may have appended its own commits after the prepared ones.
  await expect.poll(folded, { timeout: 120_000, interval: 200 }).toBeGreaterThanOrEqual(records.length);
  look();
  await log.close();
  expect([...overgrown]).toEqual([]);
  expect(longestWal).toBeLessThan(walBytesMax);
  const known = (name: string) => fileKinds.some((kind) => kind.name.test(name));
  for (const folder of folders)
    expect(
      readdirSync(folder).filter((name) => statSync(join(folder, name)).isFile() && !known(name)),
    ).toEqual([]);
  // A commit may be folded between reading the metric and reading the file's size, so retry until both agree.
  const walBytes = () => statSync(join(fleet.dir, 'gateway', 'state.db-wal')).size;
  const gauge = () =>
    numberAt(`${gateway.ready.metrics}/metrics`, /headgate_file_bytes\{file="state.db-wal"\} (\d+)/);
  await expect.poll(async () => (await gauge()) === walBytes(), { timeout: 30_000 }).toBe(true);
  for (const name of readdirSync(fleet.logFolder).filter((each) => each.endsWith('-wal')))
    expect(statSync(join(fleet.logFolder, name)).size, name).toBeLessThan(2 * walBytesMax);
  expect(statSync(join(fleet.logFolder, 'headgate.control.db')).size).toBeLessThan(
    records.length * logBytesPerCommit,
  );
  expect(existsSync(join(fleet.dir, 'plane', 'history.db'))).toBe(true);
});
