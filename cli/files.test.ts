/**
 * Tests commands that read files: state files, exported logs and embedded logs. The files are real and written by the
 * production code.
 */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { LogRecord } from '../shared/log/core/control-log.ts';
import { openLog } from '../shared/log/open-log.ts';
import { foldVersion } from '../shared/snapshot/fold.ts';
import { memorySnapshot, openOrRebuild } from '../shared/snapshot/open-snapshot.ts';
import { cliOf, useAdminServer } from '../test/support/admin-server.ts';
import { known, recordsOf } from '../test/support/commits.ts';
import { folderOfFile } from '../test/support/folders.ts';
import type { CliRun } from '../test/support/run-cli.ts';

const folder = folderOfFile('cli');
const tier = (rank: number) => known('tier.set', { id: `T${rank}`, rank, models: '*' });
const records = recordsOf([[tier(1)], [tier(2), tier(3)], [tier(4)]]);
const lineOf = ({ offset, value, signature }: LogRecord): string =>
  JSON.stringify({ offset, value: value.toString('base64'), signature: signature?.toString('base64') });
const exported = join(folder, 'log.jsonl');
const gatewayFolder = join(folder, 'gw-1');
const stateFile = join(gatewayFolder, 'state.db');

const server = useAdminServer();
beforeAll(() => {
  writeFileSync(exported, `${records.map(lineOf).join('\n')}\n`);
  const { snapshot } = openOrRebuild(stateFile);
  snapshot.apply(records);
  snapshot.close();
});

const ask = cliOf(server, { cwd: folder });
const cli = (argv: readonly string[], env: Record<string, string> = {}): Promise<CliRun> =>
  ask(argv, { env });

function digestAt(count: number): string {
  const snapshot = memorySnapshot();
  snapshot.apply(records.slice(0, count));
  try {
    return snapshot.digest();
  } finally {
    snapshot.close();
  }
}

test('replay shows the state that an exported log leads to', async () => {
  const run = await cli(['replay', 'log.jsonl', '--verify', '-o', 'json']);
  expect(run.code).toBe(0);
  expect(JSON.parse(run.out)).toMatchObject({
    log: 'test-log',
    position: 4,
    digest: digestAt(4),
    skipped: 0,
    verified: true,
    differing: [],
  });
});

test('replay --to stops at a position', async () => {
  const run = await cli(['replay', 'log.jsonl', '--to', '2', '-o', 'json']);
  expect(JSON.parse(run.out)).toMatchObject({ position: 2, digest: digestAt(2) });
  expect((await cli(['replay', 'log.jsonl', '--to', '9'])).code).toBe(3);
});

test('replay counts records that do not extend the chain', async () => {
  const [first, second, ...rest] = records.map(lineOf);
  const junk = lineOf({ offset: 1, value: Buffer.from('junk'), signature: null });
  writeFileSync(join(folder, 'junk.jsonl'), [first, junk, second, second, ...rest].join('\n'));
  const run = await cli(['replay', 'junk.jsonl', '-o', 'json']);
  expect(JSON.parse(run.out)).toMatchObject({ position: 4, digest: digestAt(4), skipped: 2 });
});

test('replay of a log with a differing checkpoint exits 1', async () => {
  const checkpoint = known('checkpoint', { foldVersion, digests: { tier: 'f'.repeat(32) } });
  const lines = recordsOf([[tier(1)], [checkpoint]]).map(lineOf);
  writeFileSync(join(folder, 'diverged.jsonl'), lines.join('\n'));
  const run = await cli(['replay', 'diverged.jsonl', '-o', 'json']);
  expect(run.code).toBe(1);
  expect(JSON.parse(run.out)).toMatchObject({ divergedAt: 3 });
});

test.each([
  ['no records', '', /no record/],
  ['an invalid line', `${lineOf(records[0]!)}\n{"offset":1}\n`, /broken\.jsonl:2:1/],
  ['an unterminated line', 'x'.repeat(5 * 1024 * 1024), /cannot be read/],
])('replay of a file with %s exits 2', async (_name, text, message) => {
  writeFileSync(join(folder, 'broken.jsonl'), text);
  const run = await cli(['replay', 'broken.jsonl']);
  expect(run).toMatchObject({ code: 2, out: '' });
  expect(run.err).toMatch(message);
});

test('replay --from-log reads the control log named in the environment or context', async () => {
  const url = `sqlite:${join(folder, 'log')}`;
  const log = await openLog(url, { topic: 'headgate.control' });
  for (const { value } of records) await log.append(value);
  await log.close();
  const named = await cli(['replay', '--from-log', '-o', 'json'], { HEADGATE_LOG: url });
  expect(JSON.parse(named.out)).toMatchObject({ position: 4, digest: digestAt(4) });
  mkdirSync(join(folder, '.headgate'), { recursive: true });
  writeFileSync(join(folder, '.headgate', 'context.json'), JSON.stringify({ log: url }));
  const found = await cli(['replay', '--from-log', '--to', '3', '-o', 'json']);
  expect(JSON.parse(found.out)).toMatchObject({ position: 3, digest: digestAt(3) });
});

test('replay --from-log does not create a missing log', async () => {
  const run = await cli(['replay', '--from-log'], { HEADGATE_LOG: `sqlite:${join(folder, 'nolog')}` });
  expect(run.code).toBe(7);
  expect(existsSync(join(folder, 'nolog'))).toBe(false);
});

test('gateway verify recomputes a state file’s digests and does not change it', async () => {
  const before = readFileSync(stateFile);
  const run = await cli(['gateway', 'verify', 'gw-1', '--data', 'gw-1', '-o', 'json']);
  expect(run.code).toBe(0);
  expect(JSON.parse(run.out)).toMatchObject({
    name: 'gw-1',
    verified: true,
    position: 4,
    digest: digestAt(4),
  });
  expect(readFileSync(stateFile).equals(before)).toBe(true);
});

test('gateway verify finds the folders through the context', async () => {
  const context = join(folder, 'context.json');
  writeFileSync(context, JSON.stringify({ gateways: [{ name: 'gw-1', dataDir: gatewayFolder }] }));
  const env = { HEADGATE_CONTEXT: context };
  expect((await cli(['gateway', 'verify'], env)).out).toMatch(/gw-1 +verified +4/);
  expect((await cli(['gateway', 'verify', 'gw-2'], env)).code).toBe(3);
});

test('changed rows in a state exit 1, and their table is named', async () => {
  const { snapshot } = openOrRebuild(join(folder, 'gw-2', 'state.db'));
  snapshot.apply(records);
  snapshot.db.exec('UPDATE tier SET rank = 9 WHERE rank = 1');
  snapshot.close();
  const run = await cli(['gateway', 'verify', '--data', 'gw-2', '-o', 'json']);
  expect(run.code).toBe(1);
  expect(JSON.parse(run.out)).toMatchObject({ verified: false, differing: ['tier'] });
});

test('a changed position in a state exits 2, with the reason and the next step', async () => {
  const path = join(folder, 'gw-3', 'state.db');
  const { snapshot } = openOrRebuild(path);
  snapshot.apply(records);
  snapshot.db.exec('UPDATE position SET next_offset = 99');
  snapshot.close();
  for (const [words, next] of [
    [['gateway', 'verify', '--data', 'gw-3'], /rebuilds its damaged state\.db when it starts/],
    [['snapshot', 'inspect', 'gw-3/state.db'], /use the data folder of a gateway/],
  ] as const) {
    const run = await cli(words);
    expect(run).toMatchObject({ code: 2, out: '' });
    expect(run.err).toContain('its position does not match its checksum');
    expect(run.err).toMatch(next);
  }
});

test.each(['nothing.db', 'log.jsonl'])('snapshot inspect of %s, not a snapshot, exits 2', async (file) => {
  expect(await cli(['snapshot', 'inspect', file])).toMatchObject({ code: 2, out: '' });
});

test('snapshot inspect verifies a state file', async () => {
  const inspected = await cli(['snapshot', 'inspect', 'gw-1/state.db', '-o', 'json']);
  expect(JSON.parse(inspected.out)).toMatchObject({ log: 'test-log', position: 4, verified: true });
});

test('events export writes the raw log, and replay reads it', async () => {
  server.answer = () => ({ bytes: readFileSync(exported) });
  const run = await cli(['events', 'export', '--out', 'copy.jsonl', '--from', '1']);
  expect(run).toMatchObject({ code: 0, out: '' });
  expect(JSON.parse((await cli(['replay', 'copy.jsonl', '-o', 'json'])).out)).toMatchObject({ position: 4 });
  expect((await cli(['events', 'export', '--out', 'copy.jsonl'])).code).toBe(2);
  expect((await cli(['events', 'export'])).out).toBe(readFileSync(exported, 'utf8'));
});
