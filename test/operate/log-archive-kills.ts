/** `headgate log archive` killed in any of its steps, while commands are written: nothing is lost, and the next run finishes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startControlPlane } from '../../control-plane/main.ts';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { ChainWriter, fleetHistory, known } from '../support/commits.ts';
import { operatorToken, planeSettings } from '../support/fleet.ts';
import { binary } from '../support/processes.ts';
import { runCli } from '../support/run-cli.ts';

/** Whether a run came so far; the steps are in their order. */
export type Step = () => boolean | Promise<boolean>;

const commits = 1500;
const end = commits + 1;

/** In a folder below `dir`. */
export function fileIn(dir: string, folder: string, name: RegExp): Step {
  const path = join(dir, folder);
  return () => existsSync(path) && readdirSync(path).some((each) => name.test(each));
}

/** The steps of the archive, and then those of the log, in each of which a run is killed. `states`: how many files of states are left. */
export async function killedInEachStep(
  urlIn: (dir: string) => string,
  stepsOfLog: (dir: string) => readonly Step[],
  states: number,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-archive-kills-'));
  const url = urlIn(dir);
  await fill(url);
  const plane = await startControlPlane(planeSettings(dir, url));
  const env = { HEADGATE_LOG: url, HEADGATE_TOKEN: operatorToken, HEADGATE_ADMIN: plane.admin };
  const writing = new AbortController();
  const written = writeUnderWay(new DevAdmin(plane.admin, operatorToken), writing.signal);
  const digestAt = async (...more: string[]): Promise<string> => {
    const argv = ['replay', '--from-log', '--to', String(end), ...more, '-o', 'json'];
    const run = await runCli(argv, { cwd: dir, env });
    expect(run.code, run.err).toBe(0);
    return (JSON.parse(run.out) as { digest: string }).digest;
  };
  try {
    const whole = await digestAt();
    const ofArchive = [fileIn(dir, 'archive', /^log-.*\.part$/), fileIn(dir, 'archive', /^manifest\.json$/)];
    for (const step of [...ofArchive, ...stepsOfLog(dir)]) {
      expect([0, null]).toContain(await runUntil(step, dir, env));
      expect(await digestAt()).toBe(whole);
    }
    expect(await runUntil(undefined, dir, env)).toBe(0);
    const log = await openLog(url, { topic: 'headgate.control' });
    expect((await log.beginning?.())?.seq).toBe(end);
    await log.close();
    expect(await digestAt('--archive', 'archive')).toBe(whole);
    const argv = ['replay', '--from-log', '--archive', 'archive', '--verify', '-o', 'json'];
    const proven = JSON.parse((await runCli(argv, { cwd: dir, env })).out);
    expect(proven).toMatchObject({ verified: true, skipped: 0 });
    expect(proven.position).toBeGreaterThan(end);
    const left = readdirSync(dir, { recursive: true, encoding: 'utf8' });
    expect(left.filter((name) => /beginning-\d/.test(name))).toHaveLength(states);
  } finally {
    writing.abort();
    await written;
    await plane.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function fill(url: string): Promise<void> {
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
}

/** Commands of another client, one after the other. */
async function writeUnderWay(admin: DevAdmin, signal: AbortSignal): Promise<void> {
  for (let number = 0; !signal.aborted; number++) {
    await admin.call('POST', '/organisations', { id: `late-${number}`, name: 'Late' });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The exit code; null where it was killed. */
async function runUntil(step: Step | undefined, dir: string, env: object): Promise<number | null> {
  const argv = ['log', 'archive', '--before', String(end), '--to', 'archive', '--yes'];
  const child = spawn(process.execPath, [binary, ...argv], {
    cwd: dir,
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  if (step !== undefined) await killAt(step, child);
  return await exited;
}

async function killAt(step: Step, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    if (await step()) {
      child.kill('SIGKILL');
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
