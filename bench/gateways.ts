/**
 * Gateways that start at once, with nothing on their disks, and one control plane to fetch the snapshot from: until all of them are
 * served, what that costs the control plane, and how long others wait there meanwhile. All are processes of this machine, so each is
 * suspended once it has all of the snapshot; what it does then, to check it and to start, is measured of one alone, when the others
 * have ended. `--gateways N --keys N`; a million keys need some minutes, and 12 GB of disk for fifty gateways.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { controlTopic } from '../schemas/commit.ts';
import { EmbeddedFile } from '../shared/log/embedded/embedded-file.ts';
import { embeddedLogPath } from '../shared/log/embedded/embedded-log.ts';
import { sleep } from '../shared/runtime/retry.ts';
import { ChainWriter, known, sha256 } from '../test/support/commits.ts';
import { operatorToken, ProcessFleet } from '../test/support/process-fleet.ts';
import { binary } from '../test/support/processes.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { MeteredPlane, seconds } from './support/metered-plane.ts';

const { values } = parseArgs({
  options: { gateways: { type: 'string', default: '50' }, keys: { type: 'string', default: '1000000' } },
});
const [gateways, keys] = [Number(values.gateways), Number(values.keys)];
const organisations = 1_000;
const keysOfCommit = 1_000;
const commitsAtOnce = 50;
const bytesOfKey = 250;
const watchMs = 100;
const readyMsMax = 600_000;

/** Returns the position of the last commit. */
function writeKeys(folder: string): number {
  const writer = new ChainWriter({ log: 'bench' });
  const path = embeddedLogPath(folder, { topic: controlTopic });
  const file = new EmbeddedFile({ path, durability: 'normal', allowTrimmed: false });
  const owned = Array.from({ length: organisations }, (_, n) =>
    known('organisation.set', {
      id: `org-${n}`,
      name: `Organisation ${n}`,
      tier: null,
      anchor: '2026-01-01',
    }),
  );
  file.append([writer.open(), writer.add(owned)], Date.now());
  const key = (n: number) =>
    known('key.created', {
      ...{ id: `key-${n}`, organisation: `org-${n % organisations}`, name: `service ${n % 77}` },
      ...{ hash: sha256(`key ${n}`), expires: 'never', expiresAt: null },
    });
  for (let n = 0; n < keys; ) {
    const records = [];
    for (; records.length < commitsAtOnce && n < keys; n += keysOfCommit)
      records.push(
        writer.add(Array.from({ length: Math.min(keysOfCommit, keys - n) }, (_, at) => key(n + at))),
      );
    file.append(records, Date.now());
  }
  file.close();
  return writer.head.seq;
}

/** The history is written for longer, on a thread of its own. */
async function foldedTo(admin: string, position: number): Promise<void> {
  const headers = { authorization: `Bearer ${operatorToken}` };
  for (;;) {
    const answer = await fetch(`${admin}/admin/v1/status`, { headers });
    if (((await answer.json()) as { position: number }).position >= position) return;
    await sleep(watchMs);
  }
}

const spread = (values: readonly number[]): string => {
  const sorted = [...values].sort((one, other) => one - other);
  return [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)]
    .map((ms) => seconds(ms ?? 0))
    .join(', ');
};

interface Starting {
  readonly folder: string;
  readonly child: ChildProcess;
  servedMs?: number;
}

function startGateway(fleet: ProcessFleet, admin: string, name: string): Starting {
  const folder = join(fleet.dir, name);
  const ports = ['--port', '0', '--metrics-port', '0'];
  const args = ['gateway', '--data', folder, '--name', name, '--control-plane', admin, ...ports];
  const env = { ...process.env, ...fleet.env, HEADGATE_LOG_LEVEL: 'error' };
  return {
    folder,
    child: spawn(process.execPath, [binary, ...args], { env, stdio: ['ignore', 'ignore', 'inherit'] }),
  };
}

/** Of the copy that all get; none yet while it is made. */
function copyBytes(folder: string): number {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.db')) : [];
  return Math.max(0, ...names.map((name) => sizeOf(join(folder, name))));
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Whether a gateway has all of the snapshot on its disk; once it has checked it, the file has its own name. */
function isServed({ folder }: Starting, bytes: number): boolean {
  return existsSync(join(folder, 'state.db')) || sizeOf(join(folder, 'state.db.part')) >= bytes;
}

/** Until all gateways are served. Returns the size of what each got. */
async function served(starting: readonly Starting[], copies: string): Promise<number> {
  const beganMs = performance.now();
  const isHere = ({ servedMs }: Starting): boolean => servedMs !== undefined;
  while (!starting.every(isHere)) {
    await sleep(watchMs);
    const bytes = copyBytes(copies);
    for (const each of starting) {
      if (each.child.exitCode !== null) throw new Error(`${each.folder} ended`);
      // A copy that is being made is of no size that a part could have.
      if (isHere(each) || bytes === 0 || !isServed(each, bytes)) continue;
      each.servedMs = performance.now() - beganMs;
      each.child.kill('SIGSTOP');
    }
  }
  return copyBytes(copies);
}

/** From nothing to an answer. */
async function startAlone(fleet: ProcessFleet, admin: string) {
  const beganMs = performance.now();
  const gateway = await fleet.startGateway('gateway-alone', { flags: ['--control-plane', admin] });
  const { pid } = gateway.ready;
  const figures = {
    'one alone: until it is ready, s': seconds(performance.now() - beganMs),
    'its processor time, s': seconds(cpuMicroseconds(pid) / 1000),
    'its memory, MB': Math.round(rssMegabytes(pid)),
  };
  await gateway.end('SIGKILL');
  return figures;
}

const fleet = new ProcessFleet({ timeoutMs: readyMsMax });
const starting: Starting[] = [];
try {
  const { bavail, bsize } = statfsSync(fleet.dir);
  if (bavail * bsize < (gateways + 8) * keys * bytesOfKey)
    throw new Error(`${fleet.dir} has too little room`);
  const position = writeKeys(fleet.logFolder);
  const metered = await MeteredPlane.start(fleet);
  const { admin } = metered.plane.ready;
  await foldedTo(admin, position);
  console.log(`${keys} keys are folded`);
  await metered.longestTurnMs();
  const [threadMs, processMs] = [metered.threadMs(), cpuMicroseconds(metered.pid) / 1000];
  for (let n = 0; n < gateways; n++) starting.push(startGateway(fleet, admin, `gateway-${n}`));
  const bytes = await served(starting, join(fleet.dir, 'plane', 'snapshot-copies'));
  const figures = {
    ...{ keys, gateways, 'snapshot, MB': Math.round(bytes / 1e6) },
    'served: first, median, last, s': spread(starting.map(({ servedMs = 0 }) => servedMs)),
    'the control plane, processor, s': seconds(cpuMicroseconds(metered.pid) / 1000 - processMs),
    'its event loop, s': seconds(metered.threadMs() - threadMs),
    'its longest turn, ms': Math.round(await metered.longestTurnMs()),
  };
  for (const { child } of starting) child.kill('SIGKILL');
  await Promise.all(starting.map(({ child }) => child.exitCode ?? child.signalCode ?? once(child, 'exit')));
  const alone = await startAlone(fleet, admin);
  console.table({ ...figures, ...alone });
  console.log(JSON.stringify({ ...figures, ...alone }));
} finally {
  for (const { child } of starting) child.kill('SIGKILL');
  await fleet.close();
}
