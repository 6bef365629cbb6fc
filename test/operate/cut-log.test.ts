/**
 * Tests a log whose first records were removed by `headgate log archive` of version 0.2.0. The log is refused until it is
 * rewritten from its archive.
 */
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../control-plane/main.ts';
import { openUsageStore } from '../../control-plane/usage/usage-store.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { ChainWriter, fleetHistory } from '../support/commits.ts';
import { planeSettings } from '../support/fleet.ts';
import { folderOfFile } from '../support/folders.ts';
import { runCli } from '../support/run-cli.ts';

const dir = folderOfFile('cut-log');
const url = `sqlite:${dir}/log`;

function start(log: string, name: string): Promise<ControlPlane> {
  return startControlPlane({ ...planeSettings(dir, log), name, dataDir: join(dir, name) });
}

async function cli(line: string): Promise<string> {
  const run = await runCli(line.split(' '), { cwd: dir, env: { HEADGATE_LOG: url } });
  return `${run.code} ${run.err}`;
}

test('a truncated log is refused with the next step, which writes the whole log again', async () => {
  const writer = new ChainWriter({ log: 'log-of-the-test' });
  const records = [writer.open(), ...fleetHistory(7, 60).map((events) => writer.add(events))];
  const append = async (from: number, to: number): Promise<void> => {
    const log = await openLog(url, { topic: 'headgate.control' });
    for (const { value } of records.slice(from, to)) await log.append(value);
    await log.close();
  };
  await append(0, 40);
  mkdirSync(join(dir, 'data'));
  openUsageStore(join(dir, 'data', 'usage.db'), { keepRows: true }).close();
  // Version 0.2.0 wrote archives as backups without usage, up to the first commit that the log kept.
  expect(await cli('backup archive --no-usage')).toMatch(/^0 /);
  await append(40, records.length);
  const db = openDatabase(join(dir, 'log', 'headgate.control.db'), { durability: 'full' });
  db.exec('DELETE FROM record WHERE "offset" < 39');
  db.close();

  await expect(start(url, 'refused')).rejects.toThrow(
    /begins at offset 39, after 0: its first commits are missing; if headgate log archive .* headgate backup ARCHIVE --data DATA, move the control log away, .* headgate backup restore ARCHIVE --log LOG --data NEW_DATA .*; restore the log from its last backup/,
  );
  expect(await cli('backup another --data data')).toMatch(
    /^6 .*lost its first commits.*earlier version wrote/s,
  );
  expect(await cli('replay --from-log')).toMatch(/^7 .*begins at offset 39, after 0/s);
  const restore = 'backup restore archive --data restored --allow-unsigned --yes --log';
  expect(await cli('backup archive --data data')).toMatch(/^0 /);
  expect(await cli(`${restore} ${url}`)).toMatch(/^6 .*the log at this address is not empty/s);
  mkdirSync(join(dir, 'cut'));
  for (const name of readdirSync(join(dir, 'log')).filter((each) => each.startsWith('headgate.control.')))
    renameSync(join(dir, 'log', name), join(dir, 'cut', name));
  expect(await cli(`${restore} ${url}`)).toMatch(/^0 /);
  await (await start(url, 'restored')).close();
  const log = await openLog(url, { topic: 'headgate.control' });
  const values: Buffer[] = [];
  for await (const batch of batchesToEnd(log)) values.push(...batch.map(({ value }) => value));
  await log.close();
  // Compares only the first records, because the control plane appends commits of its own.
  expect(values.slice(0, records.length)).toEqual(records.map(({ value }) => value));
});
