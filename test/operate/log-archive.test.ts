/** A log that is cut at a checkpoint: who may not be behind, what is kept, and what those have who read it later. */
import { generateKeyPairSync } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ControlPlane, type ControlPlaneSettings, startControlPlane } from '../../control-plane/main.ts';
import { type RunningGateway, startGateway } from '../../data-plane/main.ts';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { toStored } from '../../schemas/events.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import type { LogBeginning, LogRecord } from '../../shared/log/core/control-log.ts';
import { fingerprintOf, loadSigner } from '../../shared/log/core/signing.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { copyBeginning, openAtBeginning } from '../../shared/snapshot/log-beginning.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { ChainWriter, fleetHistory, known } from '../support/commits.ts';
import { gatewayAlone, operatorToken, planeSettings } from '../support/fleet.ts';
import { folderOfFile } from '../support/folders.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { publish, reportOf } from '../support/status-reports.ts';
import { until } from '../support/until.ts';

const root = folderOfFile('archive');

const topic = { topic: 'headgate.control' };
const closing: (() => Promise<void>)[] = [];
let dir: string;
let url: string;
let writer: ChainWriter;
let records: LogRecord[];
let admin: DevAdmin | undefined;

beforeEach(async () => {
  dir = mkdtempSync(join(root, 'case-'));
  url = `sqlite:${join(dir, 'log')}`;
  writer = new ChainWriter({ log: 'log-of-the-test' });
  admin = undefined;
  records = [];
  write(writer.open(), ...fleetHistory(7, 60).map((events) => writer.add(events)));
  checkpoint();
  write(...fleetHistory(8, 30).map((events) => writer.add(events)));
  await append(records);
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const cut = 62;

function write(...added: readonly LogRecord[]): void {
  records.push(...added);
}

/** With the digests of what is before it. */
function checkpoint(at?: string): void {
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  const event = known('checkpoint', { foldVersion, digests: snapshot.digests() });
  write(writer.addStored([toStored(event)], 'control-plane', at));
  snapshot.close();
}

async function append(added: readonly LogRecord[]): Promise<void> {
  const log = await openLog(url, topic);
  for (const { value, signature } of added) await log.append(value, signature);
  await log.close();
}

async function startPlane(
  name = 'control-plane-1',
  more: Partial<ControlPlaneSettings> = {},
): Promise<ControlPlane> {
  const settings = { ...planeSettings(dir, url), name, dataDir: join(dir, name), ...more };
  const plane = await startControlPlane(settings);
  closing.push(() => plane.close());
  return plane;
}

async function startOne(name: string): Promise<RunningGateway> {
  const gateway = await startGateway(gatewayAlone(dir, url, name));
  closing.push(() => gateway.close());
  return gateway;
}

async function startBoth(): Promise<ControlPlane> {
  const plane = await startPlane();
  await startOne('gateway-1');
  admin = new DevAdmin(plane.admin, operatorToken);
  const { complete } = await admin.confirmed(await admin.position(), 10);
  expect(complete).toBe(true);
  return plane;
}

function cli(line: string, plane?: ControlPlane): Promise<CliRun> {
  const env = { HEADGATE_LOG: url, HEADGATE_TOKEN: operatorToken, HEADGATE_ADMIN: plane?.admin };
  return runCli(line.split(' '), { cwd: dir, env });
}

const archive = `log archive --before ${cut + 20} --to archive --yes`;

async function archived(plane?: ControlPlane): Promise<void> {
  const run = await cli(archive, plane);
  expect([run.code, run.err.includes('error')], run.err).toEqual([0, false]);
}

async function positionsInLog(): Promise<LogRecord[]> {
  const log = await openLog(url, topic);
  const found: LogRecord[] = [];
  for await (const batch of batchesToEnd(log)) found.push(...batch);
  await log.close();
  return found;
}

async function digestOfLog(): Promise<{ readonly seq: number; readonly digests: unknown }> {
  const snapshot = memorySnapshot();
  snapshot.apply(records);
  const { seq } = snapshot;
  const digests = snapshot.digests();
  snapshot.close();
  return { seq, digests };
}

test('a log is cut at a checkpoint, and later readers have the same state', async () => {
  const plane = await startBoth();
  const before = await cli('status -o json', plane);
  await archived(plane);
  const left = await positionsInLog();
  expect(left[0]?.value.equals(records[cut - 1]?.value as Buffer)).toBe(true);
  // Commands continue, and a second replica and a second gateway begin behind the cut.
  const made = await admin?.call('POST', '/organisations', { id: 'late', name: 'Late' });
  expect(made).toBeDefined();
  const second = await startPlane('control-plane-2');
  const gateway = await startOne('gateway-2');
  const { complete } = (await admin?.confirmed((await admin.position()) ?? 0, 10)) ?? {};
  expect(complete).toBe(true);
  const [one, other] = await Promise.all([cli('status -o json', plane), cli('status -o json', second)]);
  const [first, next] = [JSON.parse(one.out), JSON.parse(other.out)];
  expect(next.digests).toEqual(first.digests);
  expect(next.position).toBeGreaterThan(JSON.parse(before.out).position);
  expect(gateway.api).toContain('http');
  const { items } = JSON.parse((await cli('gateway list -o json', second)).out);
  expect(items.map(({ state }: { state: string }) => state)).toEqual(['SYNCED', 'SYNCED']);
});

test('the past before the cut is answered as archived, not as an internal error', async () => {
  const plane = await startBoth();
  await archived(plane);
  const second = await startPlane('control-plane-2');
  for (const line of [
    `events list --to ${cut - 10} -o json`,
    `status --at ${cut - 10}`,
    `events show ${cut - 10}`,
  ]) {
    const run = await cli(line, second);
    expect([run.code, run.err], line).toEqual([
      3,
      expect.stringContaining(`archived: positions before ${cut} are in the archive`),
    ]);
  }
  const listed = await cli('events list -o json', second);
  expect(JSON.parse(listed.out)).toMatchObject({ archivedBefore: cut });
  expect(JSON.parse(listed.out).items[0]).toMatchObject({ position: cut });
  expect(listed.err).toContain(`archived: positions before ${cut}`);
  // The state at the cut itself is known.
  expect(await cli(`status --at ${cut} -o json`, second)).toMatchObject({ code: 0 });
  expect(await cli(`events show ${cut} -o json`, second)).toMatchObject({ code: 0 });
});

test('proofs from the cut, and with the archive from the first commit', async () => {
  await archivedAlone();
  const { seq, digests } = await digestOfLog();
  const from = await cli(`replay --from-log --to ${seq} --verify -o json`);
  expect(JSON.parse(from.out)).toMatchObject({ position: seq, digests, provenFrom: cut, verified: true });
  expect(from.err).toContain(`proven from position ${cut} on`);
  const whole = await cli(`replay --from-log --archive archive --to ${seq} --verify -o json`);
  expect(JSON.parse(whole.out)).toMatchObject({ position: seq, digests, skipped: 0, verified: true });
  expect(JSON.parse(whole.out)).not.toHaveProperty('provenFrom');
  const past = await cli(`replay --archive archive --to ${cut - 5} -o json`);
  expect(JSON.parse(past.out)).toMatchObject({ position: cut - 5 });
  expect(await cli(`replay --from-log --to ${cut - 5}`)).toMatchObject({ code: 3 });
  expect(await cli('backup verify archive')).toMatchObject({ code: 0 });
});

/** With a fleet that is stopped again. */
async function archivedAlone(): Promise<void> {
  const plane = await startBoth();
  await archived(plane);
  for (const close of closing.splice(0).reverse()) await close();
}

test('backups continue in a copy of the archive, and a new folder is refused', async () => {
  await archivedAlone();
  const fresh = await cli('backup fresh --no-usage');
  expect([fresh.code, fresh.err]).toEqual([6, expect.stringContaining(`the log begins at position ${cut}`)]);
  cpSync(join(dir, 'archive'), join(dir, 'copy'), { recursive: true });
  expect(await cli('backup copy --no-usage')).toMatchObject({ code: 0 });
  const verified = await cli('backup verify copy -o json');
  const { seq } = await digestOfLog();
  expect(JSON.parse(verified.out).position).toBeGreaterThanOrEqual(seq);
});

test('nothing is cut while a reader is behind, and it is named', async () => {
  const plane = await startBoth();
  const status = await openStatusLog(url);
  const report = reportOf({ name: 'gateway-behind', log: 'log-of-the-test', applied: cut - 1 });
  await publish(status, report, new StatusMac(operatorToken));
  await status.close();
  await until(async () => (await cli('gateway get gateway-behind', plane)).code === 0);
  const run = await cli(archive, plane);
  expect([run.code, run.err]).toEqual([
    6,
    expect.stringContaining(`gateway gateway-behind is at position ${cut - 1}`),
  ]);
  expect(readdirSync(dir)).not.toContain('archive');
});

test('nothing is cut at no checkpoint, at one of the last month, or on Kafka', async () => {
  checkpoint(new Date(Date.now() - 30 * 86_400_000).toISOString());
  await append(records.slice(-1));
  const plane = await startBoth();
  const status = await cli('log archive --before 10 --to archive --yes', plane);
  expect([status.code, status.err]).toEqual([6, expect.stringContaining('no checkpoint up to position 10')]);
  const kafka = await runCli(['log', 'archive', '--before', '70', '--to', 'archive', '--yes'], {
    cwd: dir,
    env: { HEADGATE_LOG: 'kafka://localhost:9092' },
  });
  expect([kafka.code, kafka.err]).toEqual([2, expect.stringContaining('a log on Kafka cannot be cut')]);
  await archived(plane);
  const again = await cli(`log archive --before ${records.length} --to archive -o json --yes`, plane);
  // The younger checkpoint is passed over.
  expect(JSON.parse(again.out)).toMatchObject({ begin: cut });
  const [first] = await positionsInLog();
  expect(first?.value.equals(records[cut - 1]?.value as Buffer)).toBe(true);
});

test('a dry run says where the log would be cut, and writes nothing', async () => {
  const plane = await startBoth();
  const run = await cli(`log archive --before ${cut + 20} --to archive --dry-run -o json`, plane);
  expect(JSON.parse(run.out)).toEqual({ begin: cut, folder: 'archive', dryRun: true });
  expect(readdirSync(dir)).not.toContain('archive');
  expect((await positionsInLog()).length).toBeGreaterThanOrEqual(records.length);
});

test('on a signed log a late reader trusts who began it, and nobody else', async () => {
  rmSync(join(dir, 'log'), { recursive: true });
  const { privateKey } = generateKeyPairSync('ed25519');
  const keyFile = join(dir, 'signing.pem');
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const signer = loadSigner(keyFile);
  writer = new ChainWriter({ log: 'log-of-the-test', signer });
  records = [];
  write(writer.open(), ...fleetHistory(7, 60).map((events) => writer.add(events)));
  checkpoint();
  write(...fleetHistory(8, 30).map((events) => writer.add(events)));
  await append(records);
  const signed = { signingKeyFile: keyFile };
  const plane = await startPlane('control-plane-1', signed);
  await archived(plane);
  const trusting = { ...signed, trustedSigners: [fingerprintOf(signer.publicKey)] };
  await expect(startPlane('control-plane-2', trusting)).resolves.toBeDefined();
  const other = { ...signed, trustedSigners: ['0'.repeat(64)] };
  await expect(startPlane('control-plane-3', other)).rejects.toThrow('no signer of --trust-signer');
  // Who may sign is what the records of the beginning say.
  const log = await openLog(url, topic);
  const beginning = (await log.beginning?.()) as LogBeginning;
  const forged = { ...beginning, signers: [] };
  const path = join(dir, 'forged.db');
  await expect(copyBeginning(path, log, forged)).rejects.toThrow('its signers do not follow');
  const [genesis] = beginning.trust;
  const unsigned = { ...beginning, trust: [{ ...(genesis as LogRecord), signature: null }] };
  await expect(copyBeginning(path, log, unsigned)).rejects.toThrow('its signers do not follow');
  await expect(copyBeginning(path, log, beginning)).resolves.toBeUndefined();
  await log.close();
});

test('a state that was left behind the cut begins again where the log begins', async () => {
  const behind = join(dir, 'behind', 'state.db');
  mkdirSync(join(dir, 'behind'));
  const log = await openLog(url, topic);
  const { snapshot } = await openAtBeginning(behind, log, undefined);
  snapshot.apply(records.slice(0, 20));
  snapshot.close();
  await log.close();
  await archivedAlone();
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

const logFile = (end: RegExp): string => {
  const name = readdirSync(join(dir, 'log')).find((each) => end.test(each));
  return join(dir, 'log', name ?? '');
};

test.each([
  [
    'a changed byte of the state',
    () => change(logFile(/beginning-\d.*\.db$/), (bytes) => bytes.fill(7, 5000, 5001)),
  ],
  [
    'a state that was cut short',
    () => change(logFile(/beginning-\d.*\.db$/), (bytes) => bytes.subarray(0, 8192)),
  ],
  ['a missing state', () => rmSync(logFile(/beginning-\d.*\.db$/))],
  [
    'a changed byte of what names it',
    () => change(logFile(/beginning\.json$/), (bytes) => bytes.fill(0x31, 60, 61)),
  ],
  ['the beginning of another log', () => otherBeginning()],
])('%s is refused by a new reader, with the next step', async (_what, damage) => {
  await archivedAlone();
  damage();
  const refusal = await startPlane('control-plane-2').then(
    () => 'started',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  expect(refusal).toContain('the log begins');
  expect(refusal).toContain('docs/log-archive.md');
  expect(existsSync(join(dir, 'log', 'headgate.control.db'))).toBe(true);
});

function change(path: string, of: (bytes: Buffer) => Buffer): void {
  writeFileSync(path, of(readFileSync(path)));
}

/** Whole, and written as it must be, but of another chain. */
function otherBeginning(): void {
  change(logFile(/beginning\.json$/), (bytes) =>
    Buffer.from(bytes.toString().replace(/log-of-the-test/, 'log-of-a-rival')),
  );
}

test('a damaged state is made again from the archive by the same command', async () => {
  await archivedAlone();
  rmSync(logFile(/beginning-\d.*\.db$/));
  await archived();
  const plane = await startPlane('control-plane-2');
  const { digests } = await digestOfLog();
  const now = JSON.parse((await cli(`status --at ${records.length} -o json`, plane)).out);
  expect(now.digests).toEqual(digests);
});
