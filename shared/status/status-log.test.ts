/** A status topic whose file is moved away or replaced while it is read: an unread topic never counts as read. */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { boardOn, publish, reportOf } from '../../test/support/status-reports.ts';
import type { ControlLog } from '../log/core/control-log.ts';
import type { StatusBoard } from './status-board.ts';
import { openStatusLog } from './status-log.ts';

const root = mkdtempSync(join(tmpdir(), 'headgate-status-log-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let dir: string;
let log: ControlLog;
let board: StatusBoard | undefined;
beforeEach(async () => {
  dir = mkdtempSync(join(root, 'case-'));
  log = await openStatusLog(`sqlite:${dir}/log`);
  for (let n = 1; n <= 5; n++) await publish(log, reportOf({ name: 'edge-1', n }));
});
afterEach(async () => {
  await board?.stop();
  board = undefined;
  await log.close();
});

function moveAway(to = 'away'): void {
  mkdirSync(join(dir, to));
  for (const file of readdirSync(join(dir, 'log'))) renameSync(join(dir, 'log', file), join(dir, to, file));
}

/** Another topic in the place of the first, with reports of these gateways. */
async function replace(...names: string[]): Promise<void> {
  moveAway();
  const other = await openStatusLog(`sqlite:${dir}/log`);
  for (const name of names) await publish(other, reportOf({ name }));
  await other.close();
}

test('a board whose topic was replaced has read the new one to its end before it reports that', async () => {
  board = await boardOn(log);
  await replace('edge-2');
  expect(await board.readToEnd(20_000)).toBe(true);
  expect(board.gateways().map(({ report }) => report.name)).toContain('edge-2');
  expect(board.fault).toBeUndefined();
});

test('a board whose topic was moved away reports why, and continues once a topic exists again', async () => {
  board = await boardOn(log);
  moveAway();
  expect(await board.readToEnd(1000)).toBe(false);
  expect(board.fault).toMatch(/headgate\.status\.db was removed/);
  const other = await openStatusLog(`sqlite:${dir}/log`);
  await publish(other, reportOf({ name: 'edge-3' }));
  await other.close();
  expect(await board.readToEnd(20_000)).toBe(true);
  expect(board.gateways().map(({ report }) => report.name)).toContain('edge-3');
});
