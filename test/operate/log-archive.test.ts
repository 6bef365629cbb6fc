/** An embedded log that is cut at a checkpoint: the cases of both logs, and which log is not cut. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { parseBeginning, renderBeginning } from '../../shared/log/core/beginning.ts';
import { EmbeddedFile } from '../../shared/log/embedded/embedded-file.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openAtBeginning } from '../../shared/snapshot/log-beginning.ts';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { operatorToken } from '../support/fleet.ts';
import { publish, reportOf } from '../support/status-reports.ts';
import { until } from '../support/until.ts';
import { archiveCases, archiveLine, cut, topic } from './log-archive-cases.ts';

function change(dir: string, end: RegExp, of: (bytes: Buffer) => Buffer | string): void {
  const path = fileOf(dir, end);
  writeFileSync(path, of(readFileSync(path)));
}

function fileOf(dir: string, end: RegExp): string {
  const name = readdirSync(join(dir, 'log')).find((each) => end.test(each));
  return join(dir, 'log', name ?? '');
}

const [state, facts] = [/beginning-\d.*\.db$/, /beginning\.json$/];

/** Whole, and written as it must be, but of another commit. */
function ofAnother(bytes: Buffer): string {
  const found = parseBeginning(bytes.toString());
  if (found === undefined) throw new Error('it is not what was written');
  return renderBeginning({ ...found, hash: '0'.repeat(64) });
}

const fleet = archiveCases({
  newUrl: (dir) => `sqlite:${join(dir, 'log')}`,
  damages: [
    ['a changed byte of the state', (dir) => change(dir, state, (bytes) => bytes.fill(7, 5000, 5001))],
    ['a state that was cut short', (dir) => change(dir, state, (bytes) => bytes.subarray(0, 8192))],
    ['a missing state', (dir) => rmSync(fileOf(dir, state))],
    ['a changed byte of what names it', (dir) => change(dir, facts, (bytes) => bytes.fill(0x31, 60, 61))],
    ['a missing beginning', (dir) => rmSync(fileOf(dir, facts))],
    ['the beginning of another log', (dir) => change(dir, facts, ofAnother)],
  ],
});

test('nothing is cut while a reader is behind, and it is named', async () => {
  const { url, dir } = fleet();
  const plane = await fleet().startBoth();
  const status = await openStatusLog(url);
  const report = reportOf({ name: 'gateway-behind', log: 'log-of-the-test', applied: cut - 1 });
  await publish(status, report, new StatusMac(operatorToken));
  await status.close();
  await until(async () => (await fleet().cli('gateway get gateway-behind', plane)).code === 0);
  const run = await fleet().cli(archiveLine, plane);
  expect([run.code, run.err]).toEqual([
    6,
    expect.stringContaining(`gateway gateway-behind is at position ${cut - 1}`),
  ]);
  expect(readdirSync(dir)).not.toContain('archive');
});

test('nothing is cut at no checkpoint, or at one of the last month', async () => {
  const { records } = fleet();
  fleet().checkpoint(new Date(Date.now() - 30 * 86_400_000).toISOString());
  await fleet().append(records.slice(-1));
  const plane = await fleet().startBoth();
  const status = await fleet().cli('log archive --before 10 --to archive --yes', plane);
  expect([status.code, status.err]).toEqual([6, expect.stringContaining('no checkpoint up to position 10')]);
  await fleet().archive(plane);
  // A clock that is ahead makes the younger one no older.
  const trueMs = Date.now;
  vi.spyOn(Date, 'now').mockImplementation(() => trueMs() + 2 * 86_400_000);
  onTestFinished(() => void vi.restoreAllMocks());
  const again = await fleet().cli(`log archive --before ${records.length} --to archive -o json --yes`, plane);
  // The younger checkpoint is passed over.
  expect(JSON.parse(again.out)).toMatchObject({ begin: cut });
  const [first] = await fleet().inLog();
  expect(first?.value.equals(records[cut - 1]?.value as Buffer)).toBe(true);
});

test('a dry run says where the log would be cut, and writes nothing', async () => {
  const { dir, records } = fleet();
  const plane = await fleet().startBoth();
  const run = await fleet().cli(`log archive --before ${cut + 20} --to archive --dry-run -o json`, plane);
  expect(JSON.parse(run.out)).toEqual({ begin: cut, folder: 'archive', dryRun: true });
  expect(readdirSync(dir)).not.toContain('archive');
  expect((await fleet().inLog()).length).toBeGreaterThanOrEqual(records.length);
});

test('a state that was left behind the cut begins again where the log begins', async () => {
  const { dir, url, records } = fleet();
  const behind = join(dir, 'behind', 'state.db');
  mkdirSync(join(dir, 'behind'));
  const log = await openLog(url, topic);
  const { snapshot } = await openAtBeginning(behind, log, undefined);
  snapshot.apply(records.slice(0, 20));
  snapshot.close();
  await log.close();
  await fleet().archiveAlone();
  const cutLog = await openLog(url, topic);
  const opened = await openAtBeginning(behind, cutLog, await cutLog.beginning?.());
  expect(opened).toMatchObject({
    isFromBeginning: true,
    rebuiltBecause: expect.stringContaining('position 20'),
  });
  expect(opened.snapshot.seq).toBe(cut);
  opened.snapshot.close();
  await cutLog.close();
});

test('a log whose first records were removed at no checkpoint is not taken for one that was cut', async () => {
  const { dir } = fleet();
  const path = join(dir, 'log', 'headgate.control.db');
  const file = new EmbeddedFile({ path, durability: 'normal', allowTrimmed: true });
  file.removeBefore(cut - 10);
  file.close();
  const run = await fleet().cli(archiveLine);
  expect([run.code, run.err]).toEqual([1, expect.stringContaining('not by headgate log archive')]);
});
