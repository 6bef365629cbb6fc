/**
 * Tests a status topic whose file is moved away and replaced while it is being read. A topic that was not read must never
 * count as read.
 */
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../../test/support/folders.ts';
import { boardOn, publish, reportOf } from '../../test/support/status-reports.ts';
import { openStatusLog } from './status-log.ts';

test('a board whose topic was replaced says why, and first reads the new topic to its end', async () => {
  const dir = folderOfTest('status-log');
  const open = () => openStatusLog(`sqlite:${dir}/log`);
  const log = await open();
  for (let n = 1; n <= 5; n++) await publish(log, reportOf({ name: 'edge-1', n }));
  const board = await boardOn(log);
  mkdirSync(join(dir, 'away'));
  for (const file of readdirSync(join(dir, 'log')))
    renameSync(join(dir, 'log', file), join(dir, 'away', file));
  expect(await board.readToEnd(1000)).toBe(false);
  expect(board.fault).toMatch(/headgate\.status\.db was removed/);
  const other = await open();
  await publish(other, reportOf({ name: 'edge-2' }));
  await other.close();
  expect(await board.readToEnd(20_000)).toBe(true);
  expect(board.gateways().map(({ report }) => report.name)).toContain('edge-2');
  expect(board.fault).toBeUndefined();
  await board.stop();
  await log.close();
});
