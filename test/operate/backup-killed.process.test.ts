/**
 * Kills `headgate backup` and `headgate backup restore` before each file change. What a killed command leaves must never be
 * mistaken for a complete backup or state, and the same command must complete the work.
 */
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { GatewaysFile } from '../../control-plane/gateways/gateways-file.ts';
import { openUsageStore } from '../../control-plane/usage/usage-store.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { ChainWriter, known } from '../support/commits.ts';
import { binary } from '../support/processes.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { usageMac } from '../support/usage-mac.ts';

const hook = new URL('../support/kill-at-call.mjs', import.meta.url).href;
const root = mkdtempSync(join(tmpdir(), 'headgate-killed-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const writer = new ChainWriter({ log: 'log-of-the-test' });
/** More commits than a restore appends at once. */
const commits = 250;
const period = '2026-11-01';

beforeAll(async () => {
  const folder = join(root, 'before');
  await addCommits(folder, commits - 1);
  addUsage(folder, 3);
  new GatewaysFile(join(folder, 'cp', 'gateways.db'), () => {}).close();
  expect((await cli(folder, backup)).err).not.toContain('error');
  await addCommits(folder, commits);
  addUsage(folder, 2);
});

let rank = 0;
async function addCommits(folder: string, count: number): Promise<void> {
  const log = await openLog(`sqlite:${join(folder, 'log')}`, { topic: 'headgate.control' });
  if (rank === 0) await log.append(writer.open().value);
  const records = Array.from({ length: count }, () => {
    rank++;
    return writer.add([known('tier.set', { id: `T${rank}`, rank, models: '*' })]);
  });
  await Promise.all(records.map(({ value }) => log.append(value)));
  await log.close();
}

function addUsage(folder: string, requests: number): void {
  const store = openUsageStore(join(folder, 'cp', 'usage.db'), { mac: usageMac });
  const incarnation = '0191b2c3-0000-4000-8000-000000000001';
  const from = store.highWater(incarnation);
  const rows = Array.from({ length: requests }, (_, index) => ({
    ...{ v: 1, incarnation, n: from + index + 1, at: `${period}T00:00:00.000Z`, requestId: 'r' },
    ...{ organisation: 'acme', period, draw: 'pool', model: 'm1', promptTokens: 2, completionTokens: 5 },
  }));
  const value = Buffer.from(JSON.stringify(rows));
  store.apply(0, [{ offset: store.nextOffset(0), value, signature: usageMac.of(value) }]);
  store.close();
}

const backup = 'backup copy --data cp';
const restore = 'backup restore copy --log sqlite:new --data new-cp --allow-unsigned --yes';

function cli(folder: string, line: string): Promise<CliRun> {
  const env = { HEADGATE_LOG: `sqlite:${join(folder, 'log')}` };
  const argv = `${line} -o json`.replace('sqlite:new', `sqlite:${join(folder, 'new')}`).split(' ');
  return runCli(argv, { cwd: folder, env });
}

/** Returns the exit code, or null if the process was killed at the given call. */
function killedAt(call: number, folder: string, line: string): Promise<number | null> {
  const args = ['--import', hook, binary, ...line.replace('sqlite:new', `sqlite:${folder}/new`).split(' ')];
  const env = {
    ...{ PATH: process.env['PATH'], HEADGATE_LOG: `sqlite:${join(folder, 'log')}` },
    HEADGATE_TEST_KILL_IN: ['copy', 'new', 'new-cp'].map((name) => join(folder, name)).join(','),
    HEADGATE_TEST_KILL_AT: String(call),
  };
  return new Promise((resolve) => {
    spawn(process.execPath, args, { cwd: folder, env, stdio: 'ignore' }).on('exit', resolve);
  });
}

/**
 * Runs the command repeatedly and kills it before its first file change, then before its second, and so on until it
 * completes. Resolves with the number of file changes.
 */
async function atEachCall(
  name: string,
  line: string,
  check: (folder: string, call: number) => Promise<void>,
): Promise<number> {
  // Runs four commands at once, because most of the time goes into starting processes.
  for (let call = 1; ; call += 4) {
    const ends = await Promise.all(
      [0, 1, 2, 3].map(async (more) => {
        const folder = join(root, `${name}-${call + more}`);
        cpSync(join(root, 'before'), folder, { recursive: true });
        const code = await killedAt(call + more, folder, line);
        if (code === null) await check(folder, call + more);
        else expect(code).toBe(0);
        rmSync(folder, { recursive: true });
        return code;
      }),
    );
    const last = ends.lastIndexOf(null);
    if (last < 3) return call + last;
  }
}

test('a killed backup leaves the previous one whole or is whole itself, and the next one completes it', async () => {
  const found = new Set<unknown>();
  const calls = await atEachCall('backup', backup, async (folder, call) => {
    const verified = await cli(folder, 'backup verify copy');
    expect([call, verified.code], verified.err).toEqual([call, 0]);
    const { position } = JSON.parse(verified.out) as { position: number };
    expect([commits, 2 * commits]).toContain(position);
    found.add(position);
    const again = await cli(folder, backup);
    expect([call, again.code], again.err).toEqual([call, 0]);
    expect(JSON.parse((await cli(folder, 'backup verify copy')).out)).toMatchObject({
      position: 2 * commits,
      files: 4,
    });
    expect(readdirSync(join(folder, 'copy')).filter((name) => name.endsWith('.part'))).toEqual([]);
  });
  expect(calls).toBeGreaterThan(8);
  expect(found).toEqual(new Set([commits, 2 * commits]));
}, 180_000);

test('a killed restore leaves no data folder that looks whole, and the next one completes it', async () => {
  const seen = new Set<string>();
  const calls = await atEachCall('restore', restore, async (folder, call) => {
    const data = join(folder, 'new-cp');
    mkdirSync(data, { recursive: true });
    seen.add(
      readdirSync(data)
        .filter((name) => /\.db(?:\.part)?$/.test(name))
        .sort()
        .join(' '),
    );
    // usage.db is written last, so its presence means a complete restore.
    if (!existsSync(join(data, 'usage.db'))) {
      const again = await cli(folder, restore);
      expect([call, again.code], again.err).toEqual([call, 0]);
    }
    expect(readdirSync(data).filter((name) => name.includes('.part'))).toEqual([]);
    const usage = openUsageStore(join(data, 'usage.db'));
    expect(usage.totals('acme', period)).toMatchObject({ requests: 3 });
    usage.close();
    openCounterCopy(join(data, 'counters.db')).close();
    new GatewaysFile(join(data, 'gateways.db'), () => expect.fail('damaged')).close();
    const log = await openLog(`sqlite:${join(folder, 'new')}`, { topic: 'headgate.control' });
    expect(await log.end()).toBeGreaterThanOrEqual(commits);
    await log.close();
  });
  expect(calls).toBeGreaterThan(8);
  // These files remain if the command is killed between its two renames. Earlier versions could not repeat a restore from
  // this state.
  expect([...seen]).toContain('counters.db gateways.db lock.db usage.db.part');
}, 180_000);
