/** `headgate log archive` killed in any of its steps, while commands are written: nothing is lost, and the next run finishes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../control-plane/main.ts';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { ChainWriter, fleetHistory, known } from '../support/commits.ts';
import { operatorToken, planeSettings } from '../support/fleet.ts';
import { binary } from '../support/processes.ts';
import { runCli } from '../support/run-cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-archive-kills-'));
const url = `sqlite:${join(dir, 'log')}`;
const env = { HEADGATE_LOG: url, HEADGATE_TOKEN: operatorToken };
const commits = 1500;
let plane: ControlPlane;
let admin: DevAdmin;
let writing = true;
let written: Promise<void>;

beforeAll(async () => {
  const writer = new ChainWriter({ log: 'log-of-the-test' });
  const snapshot = memorySnapshot();
  const records = [
    writer.open(),
    ...fleetHistory(3, 40).map((events) => writer.add(events)),
    ...Array.from({ length: commits - 41 }, () => writer.add([])),
  ];
  snapshot.apply(records);
  records.push(writer.add([known('checkpoint', { foldVersion, digests: snapshot.digests() })]));
  snapshot.close();
  const log = await openLog(url, { topic: 'headgate.control' });
  for (let done = 0; done < records.length; done += 500)
    await Promise.all(records.slice(done, done + 500).map(({ value }) => log.append(value)));
  await log.close();
  plane = await startControlPlane(planeSettings(dir, url));
  admin = new DevAdmin(plane.admin, operatorToken);
  written = writeUnderWay();
});
afterAll(async () => {
  writing = false;
  await written;
  await plane.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Commands of another client, one after the other. */
async function writeUnderWay(): Promise<void> {
  for (let number = 0; writing; number++) {
    await admin.call('POST', '/organisations', { id: `late-${number}`, name: 'Late' });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const words = `log archive --before ${commits + 1} --to archive --yes`.split(' ');

function start(): ChildProcess {
  return spawn(process.execPath, [binary, ...words], {
    cwd: dir,
    env: { ...process.env, ...env, HEADGATE_ADMIN: plane.admin },
    stdio: 'ignore',
  });
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once('exit', (code) => resolve(code)));
}

async function digestAt(position: number, ...more: string[]): Promise<string> {
  const argv = ['replay', '--from-log', '--to', String(position), ...more, '-o', 'json'];
  const run = await runCli(argv, { cwd: dir, env });
  expect(run.code, run.err).toBe(0);
  return (JSON.parse(run.out) as { digest: string }).digest;
}

/** What appears on the disk, one after the other, in the steps of a run; each run is killed at the next of them. */
const steps: readonly (readonly [folder: string, name: RegExp])[] = [
  ['archive', /^log-.*\.part$/],
  ['archive', /^manifest\.json$/],
  ['log', /\.beginning-\d+-\d+\.db\.part$/],
  ['log', /\.beginning-\d+-\d+\.db$/],
  ['log', /\.beginning\.json$/],
];

function isThere([folder, name]: (typeof steps)[number]): boolean {
  const path = join(dir, folder);
  return existsSync(path) && readdirSync(path).some((each) => name.test(each));
}

/** The exit code; null where it was killed. */
async function runUntil(step: (typeof steps)[number] | undefined): Promise<number | null> {
  const child = start();
  const watching = step && setInterval(() => (isThere(step) ? child.kill('SIGKILL') : undefined), 1);
  const code = await ended(child);
  clearInterval(watching);
  return code;
}

test('killed in any step, the log has the same state, and the next run finishes the cut', async () => {
  const end = commits + 1;
  const whole = await digestAt(end);
  for (const step of steps) {
    expect([0, null]).toContain(await runUntil(step));
    expect(await digestAt(end)).toBe(whole);
  }
  expect(await runUntil(undefined)).toBe(0);
  const log = await openLog(url, { topic: 'headgate.control' });
  expect((await log.beginning?.())?.seq).toBe(end);
  await log.close();
  expect(await digestAt(end, '--archive', 'archive')).toBe(whole);
  const run = await runCli(['replay', '--from-log', '--archive', 'archive', '--verify', '-o', 'json'], {
    cwd: dir,
    env,
  });
  expect(JSON.parse(run.out)).toMatchObject({ verified: true, skipped: 0 });
  expect(JSON.parse(run.out).position).toBeGreaterThan(end);
  expect(readdirSync(join(dir, 'log')).filter((name) => /beginning-\d/.test(name))).toHaveLength(1);
});
