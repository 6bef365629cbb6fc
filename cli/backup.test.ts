/** Tests backups of real embedded logs and usage files: their content, what is refused, and what a restore brings back. */
import { createHash, generateKeyPairSync } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { beforeEach, expect, test } from 'vitest';
import { GatewaysFile } from '../control-plane/gateways/gateways-file.ts';
import { checkUsage } from '../control-plane/usage/check-usage.ts';
import { moveRows } from '../control-plane/usage/move-rows.ts';
import { openUsageStore } from '../control-plane/usage/usage-store.ts';
import { type CounterEntry, countersTopic } from '../schemas/records/limits.ts';
import { openCounterCopy } from '../shared/limits/counter-copy.ts';
import { CounterState } from '../shared/limits/counters.ts';
import { batchesToEnd } from '../shared/log/core/batches-to-end.ts';
import type { LogRecord } from '../shared/log/core/control-log.ts';
import { RecordMac } from '../shared/log/core/record-mac.ts';
import { computeFingerprint, loadSigner, type Signer } from '../shared/log/core/signing.ts';
import { openLog } from '../shared/log/open-log.ts';
import { openDatabase } from '../shared/runtime/sqlite.ts';
import { ChainWriter, known } from '../test/support/commits.ts';
import { folderOfFile } from '../test/support/folders.ts';
import { otherThanFiles } from '../test/support/other-than-files.ts';
import { type CliRun, runCli } from '../test/support/run-cli.ts';
import { usageMac } from '../test/support/usage-mac.ts';

const root = folderOfFile('backup');

let folder: string;
let writer: ChainWriter;
let rank: number;
beforeEach(async () => {
  folder = mkdtempSync(join(root, 'case-'));
  writer = new ChainWriter({ log: 'log-of-the-test' });
  rank = 0;
  restore = `backup restore copy --log sqlite:${folder}/new --data new-cp --allow-unsigned --yes`;
  await append(writer.open(), ...tiers(5));
  addUsage(3);
});

function tiers(count: number): LogRecord[] {
  return Array.from({ length: count }, () => {
    rank++;
    return writer.add([known('tier.set', { id: `T${rank}`, rank, models: '*' })]);
  });
}

async function append(...records: readonly LogRecord[]): Promise<void> {
  const log = await openLog(`sqlite:${join(folder, 'log')}`, { topic: 'headgate.control' });
  for (const { value, signature } of records) await log.append(value, signature);
  await log.close();
}

/** Current billing period. A restore ignores counters of earlier periods. */
const period = `${new Date().toISOString().slice(0, 7)}-01`;
const incarnation = '0191b2c3-0000-4000-8000-000000000001';
const replica = '0191b2c3-0000-4000-8000-000000000002';

function addUsage(requests: number): void {
  const store = openUsageStore(join(folder, 'cp', 'usage.db'), { keepRows: true, mac: usageMac });
  const from = store.highWater(incarnation);
  const rows = Array.from({ length: requests }, (_, index) => ({
    ...{ v: 1, incarnation, n: from + index + 1, at: `${period}T00:00:00.000Z`, replica, requestId: 'r' },
    ...{ organisation: 'acme', period, draw: 'pool', model: 'm1' },
    ...{ promptTokens: 2, completionTokens: 5 },
  }));
  const offset = store.nextOffset(0);
  const value = Buffer.from(JSON.stringify(rows));
  store.apply(0, [{ offset, value, signature: usageMac.of(value) }]);
  store.close();
}

interface CliOptions {
  readonly signal?: AbortSignal;
  readonly env?: Readonly<Record<string, string>>;
}

function cli(line: string, { env, ...options }: CliOptions = {}): Promise<CliRun> {
  const all = { HEADGATE_LOG: `sqlite:${join(folder, 'log')}`, ...env };
  return runCli(line.split(' '), { cwd: folder, env: all, ...options });
}

async function refused(line: string, code: number, text: string, options: CliOptions = {}): Promise<void> {
  const run = await cli(line, options);
  expect([run.code, run.err], line).toEqual([code, expect.stringContaining(text)]);
}

async function done(line: string): Promise<Record<string, unknown>> {
  const run = await cli(`${line} -o json`);
  expect([run.code, run.err.includes('error')], run.err).toEqual([0, false]);
  return JSON.parse(run.out) as Record<string, unknown>;
}

const backup = 'backup copy --data cp';
let restore: string;
const filesOf = (path: string) =>
  new Map(
    readdirSync(join(folder, path)).map((name) => [name, readFileSync(join(folder, path, name), 'hex')]),
  );

async function recordsIn(path: string): Promise<Buffer[]> {
  const log = await openLog(`sqlite:${join(folder, path)}`, { topic: 'headgate.control' });
  const values: Buffer[] = [];
  for await (const records of batchesToEnd(log)) values.push(...records.map(({ value }) => value));
  await log.close();
  return values;
}

test('a backup adds the commits since the last one and the current usage, readable only by its owner', async () => {
  expect(await done(backup)).toMatchObject({ number: 1, position: 6, commits: 6, data: ['usage.db'] });
  await append(...tiers(2));
  addUsage(2);
  expect(await done(backup)).toMatchObject({ number: 2, position: 8, commits: 2 });
  expect(await done(backup)).toMatchObject({ number: 3, position: 8, commits: 0 });
  expect([...filesOf('copy').keys()].sort()).toEqual([
    'lock.db',
    'log-000001.jsonl.gz',
    'log-000002.jsonl.gz',
    'manifest.json',
    'usage-000003.db',
  ]);
  for (const name of filesOf('copy').keys())
    expect(statSync(join(folder, 'copy', name)).mode & 0o777, name).toBe(0o600);
  expect(statSync(join(folder, 'copy')).mode & 0o777).toBe(0o700);
  expect(await done('backup verify copy')).toMatchObject({ position: 8, files: 3 });

  // Log segments in a backup have the format of an exported log.
  const exported = ['1', '2'].map((n) =>
    gunzipSync(readFileSync(join(folder, `copy/log-00000${n}.jsonl.gz`))),
  );
  writeFileSync(join(folder, 'log.jsonl'), Buffer.concat(exported));
  expect(await done('replay log.jsonl --verify')).toMatchObject({ position: 8, verified: true });
});

test('a backup’s usage is kept without --data, and is not replaced by a folder’s smaller usage', async () => {
  await done(backup);
  await append(...tiers(1));
  expect(await done(`${backup.replace(/ --data \S+/, '')} --no-usage`)).toMatchObject({
    number: 2,
    data: ['usage.db'],
  });
  rmSync(join(folder, 'cp'), { recursive: true });
  addUsage(1);
  const less = await cli(backup);
  expect([less.code, less.err]).toEqual([
    6,
    expect.stringMatching(
      /has 1 completed requests, but its copy in this backup has 3[\s\S]*next {2}check --data/,
    ),
  ]);
  expect(await done('backup verify copy')).toMatchObject({ files: 3 });
  addUsage(2);
  expect(await done(backup)).toMatchObject({ number: 3, data: ['usage.db'] });
});

test('a restore gives the same records and totals, and can be repeated after an interruption', async () => {
  await done(backup);
  await append(recordOfText('junk'), ...tiers(300));
  await done(backup);
  const before = await recordsIn('log');

  const abort = new AbortController();
  abort.abort();
  const interrupted = await cli(restore, { signal: abort.signal });
  expect(interrupted.code).toBe(130);
  // Simulates a restore that was interrupted half-way: the log contains the first commits, but the data folder is still
  // empty.
  const log = await openLog(`sqlite:${join(folder, 'new')}`, { topic: 'headgate.control' });
  for (const value of before.slice(0, 5)) await log.append(value);
  await log.close();

  expect((await done(`${restore} --dry-run`))['dryRun']).toBe(true);
  expect(existsSync(join(folder, 'new-cp'))).toBe(false);
  expect(await done(restore)).toMatchObject({ log: 'log-of-the-test', position: 306 });
  expect(await recordsIn('new')).toEqual(before.filter((value) => String(value) !== 'junk'));

  const usage = openUsageStore(join(folder, 'new-cp', 'usage.db'));
  expect(usage.totals('acme', period)).toMatchObject({ totalTokens: 21, requests: 3 });
  expect(usage.requests({ limit: 10 })).toHaveLength(3);
  // The restored usage.db reads the new usage topic from offset 0, and its totals replace the lost counters.
  expect(usage.nextOffset(0)).toBe(0);
  usage.close();
  expect(standing()).toEqual([['acme', period, 21, 3]]);

  const again = await cli(restore);
  expect([again.code, again.err]).toEqual([
    6,
    expect.stringContaining('new-cp is not empty: it has counters.db'),
  ]);
});

test('changed day files are copied, and a restore puts them back', async () => {
  const path = join(folder, 'cp', 'usage.db');
  const move = (): void => {
    const store = openUsageStore(path, { keepRows: true });
    for (const part of moveRows({ path, isFirst: true })) store.rows.noteMoved(part);
    while (store.rows.removeMoved());
    store.close();
  };
  move();
  const day = `usage-rows/${period}.db`;
  const settled = new Date(Date.now() - 600_000);
  utimesSync(join(folder, 'cp', day), settled, settled);
  const copies = (): string[] => readdirSync(join(folder, 'copy')).filter((name) => name.includes('rows'));
  expect(await done(backup)).toMatchObject({ data: ['usage.db', day] });
  expect(await done(backup)).toMatchObject({ number: 2, data: ['usage.db', day] });
  expect(copies()).toEqual([`usage-rows-${period}-000001.db`]);
  addUsage(2);
  move();
  addUsage(1);
  expect((await cli(backup)).out).toContain('and usage.db, rows of 1 days');
  expect(copies()).toEqual([`usage-rows-${period}-000003.db`]);
  expect(await done('backup verify copy')).toMatchObject({ files: 3 });
  await done(restore);
  const usage = openUsageStore(join(folder, 'new-cp', 'usage.db'));
  expect(usage.requests({ limit: 10 }).map(({ row }) => row.n)).toEqual([1, 2, 3, 4, 5, 6]);
  usage.close();
  expect(checkUsage(join(folder, 'new-cp', 'usage.db'))).toEqual([]);
  for (const name of readdirSync(join(folder, 'new-cp')))
    if (name !== 'usage-rows') rmSync(join(folder, 'new-cp', name));
  await refused(restore, 6, `new-cp is not empty: it has usage-rows/${period}.db`);
});

function recordOfText(text: string): LogRecord {
  return { offset: 0, value: Buffer.from(text), signature: null };
}

test('verify, restore and the next backup refuse one flipped bit in any file by the file’s name', async () => {
  await done(backup);
  await append(...tiers(2));
  await done(backup);
  const whole = join(folder, 'whole');
  cpSync(join(folder, 'copy'), whole, { recursive: true });
  for (const name of [...filesOf('whole').keys()].filter((name) => name !== 'lock.db')) {
    const bytes = readFileSync(join(whole, name));
    for (const at of [0, Math.floor(bytes.length / 2), bytes.length - 1]) {
      cpSync(whole, join(folder, 'copy'), { recursive: true });
      const flipped = Buffer.from(bytes);
      flipped.writeUInt8(flipped.readUInt8(at) ^ 0x04, at);
      writeFileSync(join(folder, 'copy', name), flipped);
      for (const line of ['backup verify copy', restore, ...(name.startsWith('usage') ? [] : [backup])]) {
        const run = await cli(line);
        expect([run.code, run.err], `${name} ${at} ${line}`).toEqual([
          1,
          expect.stringMatching(
            new RegExp(`^error\\[DamagedBackup\\]: the backup is damaged: ${name}\\n[^]*put ${name} back`),
          ),
        ]);
      }
    }
  }
  expect(existsSync(join(folder, 'new'))).toBe(false);
  expect(existsSync(join(folder, 'new-cp'))).toBe(false);

  cpSync(whole, join(folder, 'copy'), { recursive: true });
  rmSync(join(folder, 'copy', 'log-000001.jsonl.gz'));
  expect((await cli('backup verify copy')).err).toContain('log-000001.jsonl.gz\n');
});

test('an interrupted backup leaves the previous one whole, and the next one removes what it left', async () => {
  await done(backup);
  const before = filesOf('copy');
  await append(...tiers(2));
  const abort = new AbortController();
  abort.abort();
  expect((await cli(backup, { signal: abort.signal })).code).toBe(130);
  // Incomplete files that a killed backup may leave behind.
  for (const name of [
    'log-000002.jsonl.gz',
    'log-000002.jsonl.gz.part',
    'usage-000002.db',
    'usage-000002.db.part',
  ])
    writeFileSync(join(folder, 'copy', name), 'half of it');
  for (const [name, bytes] of before)
    if (name !== 'lock.db') expect(filesOf('copy').get(name), name).toBe(bytes);
  expect(await done('backup verify copy')).toMatchObject({ position: 6 });
  expect(await done(backup)).toMatchObject({ position: 8, commits: 2 });
  expect([...filesOf('copy').keys()].filter((name) => name.endsWith('.part'))).toEqual([]);
  expect(await done('backup verify copy')).toMatchObject({ position: 8, files: 3 });
});

test('another log, a shorter or longer one, and a folder with other files are refused without any change', async () => {
  await append(...tiers(1));
  await done(backup);
  const before = filesOf('copy');
  rmSync(join(folder, 'log'), { recursive: true });
  await refused(backup, 7, 'there is no ');
  writer = new ChainWriter({ log: 'another-log' });
  await append(writer.open(), ...tiers(1));
  await refused(backup, 6, 'the log is not that of this backup');
  // In the first round the log ends at the position of the backup's last commit, and in the second round after it.
  for (let more = 0; more < 2; more++) {
    await append(...tiers(4));
    await refused(backup, 6, 'the log is not that of this backup');
  }
  for (const [name, bytes] of before)
    if (name !== 'lock.db') expect(filesOf('copy').get(name), name).toBe(bytes);

  await refused(restore.replace('/new ', '/log '), 6, 'it contains log another-log, to position 10');
  await refused('backup . --data cp', 6, 'is not empty, and does not contain a backup');
  await refused('backup copy', 2, 'usage.db has every completed request');
  await refused('backup copy --data log', 2, "not a control plane's data folder");
  await refused('backup verify cp', 3, 'does not contain a backup');
  await refused('backup restore copy --yes', 2, 'give the address of the new log');
  await refused(restore.replace(' --yes', ''), 2, 'cannot ask for confirmation');
  expect(await done('backup fresh --no-usage')).toMatchObject({ position: 10, data: [] });
});

const gatewayToken = 'gateway-token-of-the-test';
const withToken = { env: { HEADGATE_GATEWAY_TOKEN: gatewayToken } };

/** Publishes gateways' counters on the topic at the new log's address. */
async function publishCounters(...entriesOf: readonly (readonly [string, CounterEntry[]])[]): Promise<void> {
  const topic = await openLog(`sqlite:${join(folder, 'new')}`, { topic: countersTopic });
  const mac = new RecordMac(countersTopic, gatewayToken);
  for (const [of, entries] of entriesOf) {
    const record = { v: 1, replica: of, process: 'process-1', at: Date.now(), entries };
    const value = Buffer.from(JSON.stringify(record));
    await topic.append(value, mac.of(value));
  }
  await topic.close();
}

/** Returns the totals that the restore stored in place of lost counters. */
function standing(): unknown {
  const copy = openCounterCopy(join(folder, 'new-cp', 'counters.db'));
  const state = new CounterState();
  copy.loadInto(state);
  copy.close();
  return [...state.entriesOf('rows')];
}

test.each<[string, (readonly [string, CounterEntry[]])[], CounterEntry[]]>([
  // Retention has removed all counters of the gateways, so the topic is empty although its end is not offset 0.
  ['nothing from this period', [[replica, []]], [['acme', period, 21, 3]]],
  ['everything that was counted', [[replica, [['acme', period, 21, 3]]]], []],
  ['more than the backup', [[replica, [['acme', period, 70, 10]]]], []],
  [
    'only some gateways’ counters',
    [
      [replica, [['acme', period, 7, 1]]],
      ['another-gateway', [['acme', period, 3, 1]]],
      // Counters that a control plane has already published again from its own totals.
      ['rows', [['acme', period, 11, 1]]],
    ],
    [['acme', period, 11, 1]],
  ],
])('if the counters topic has %s, the totals cover the rest', async (_, counters, expected) => {
  await done(backup);
  await publishCounters(...counters);
  expect((await cli(restore, withToken)).err).not.toContain('error');
  expect(standing()).toEqual(expected);
});

test('counters that cannot be authenticated are refused before anything is written', async () => {
  await done(backup);
  await publishCounters([replica, [['acme', period, 21, 3]]]);
  await refused(restore, 2, 'set HEADGATE_GATEWAY_TOKEN');
  const other = { env: { HEADGATE_GATEWAY_TOKEN: 'another-gateway-token' } };
  await refused(restore, 6, 'was written with this gateway token', other);
  expect(readdirIn('new')).toEqual(['headgate.counters.db']);
  const rotated = {
    env: { ...other.env, HEADGATE_GATEWAY_TOKEN_PREVIOUS: gatewayToken },
  };
  expect((await cli(restore, rotated)).code).toBe(0);
  expect(standing()).toEqual([]);
});

function readdirIn(path: string): string[] {
  return readdirSync(join(folder, path)).filter((name) => !/-(?:wal|shm)$/.test(name));
}

test.each(['counters.db', 'state.db', 'state.db.aside', 'history.db', 'usage.db-wal', 'gateways.db'])(
  'a data folder with %s is refused',
  async (name) => {
    await done(backup);
    mkdirSync(join(folder, 'new-cp'));
    writeFileSync(join(folder, 'new-cp', name), '');
    await refused(restore, 6, `new-cp is not empty: it has ${name}`);
    expect(readdirSync(join(folder, 'new-cp'))).toEqual([name]);
  },
);

test('restored files are private to their owner, whatever the modes of the backup and the folder', async () => {
  await done(backup);
  for (const name of filesOf('copy').keys()) chmodSync(join(folder, 'copy', name), 0o644);
  mkdirSync(join(folder, 'new-cp'));
  chmodSync(join(folder, 'new-cp'), 0o755);
  await done(restore);
  expect(statSync(join(folder, 'new-cp')).mode & 0o777).toBe(0o700);
  expect(readdirIn('new-cp').sort()).toEqual(['counters.db', 'lock.db', 'usage.db']);
  for (const name of readdirIn('new-cp'))
    expect(statSync(join(folder, 'new-cp', name)).mode & 0o777, name).toBe(0o600);
});

test('a restore that ended between two files can be repeated, also past a planted file', async () => {
  openGateways();
  await done(backup);
  await done(restore);
  const inCp = (name: string): string => join(folder, 'new-cp', name);
  const expected = readFileSync(inCp('gateways.db'), 'hex');
  // Simulates a restore that ended before its last step: gateways.db already has its final name, but usage.db does not.
  renameSync(inCp('usage.db'), inCp('usage.db.part'));
  writeFileSync(inCp('gateways.db.part'), 'half of it');
  await done(restore);
  expect(readFileSync(inCp('gateways.db'), 'hex')).toBe(expected);
  expect(readdirIn('new-cp').sort()).toEqual(['counters.db', 'gateways.db', 'lock.db', 'usage.db']);
  expect(standing()).toEqual([['acme', period, 21, 3]]);
  await refused(restore, 6, 'it has counters.db');
});

function openGateways(): void {
  new GatewaysFile(join(folder, 'cp', 'gateways.db'), () => {}).close();
}

interface Manifest {
  readonly log: object;
  readonly data: readonly { readonly file: string }[];
  readonly segments: readonly { readonly file: string }[];
}

/** Changes a manifest and corrects its checksum, as anyone who can write to the backup could. */
function forgeManifest(of: string, change: (manifest: Manifest) => Partial<Manifest>): void {
  const path = join(folder, of, 'manifest.json');
  const { manifest } = JSON.parse(readFileSync(path, 'utf8')) as { manifest: Manifest };
  const forged = { ...manifest, ...change(manifest) };
  const sha256 = sha256Of(JSON.stringify(forged));
  writeFileSync(path, `${JSON.stringify({ manifest: forged, sha256 }, null, 2)}\n`);
}

const sha256Of = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex');

function factsOf(path: string): object {
  const bytes = readFileSync(join(folder, path));
  return { bytes: bytes.length, sha256: sha256Of(bytes) };
}

test.each<[string, (manifest: Manifest) => Partial<Manifest>]>([
  ['names a different log', ({ log }) => ({ log: { ...log, id: 'another-log' } })],
  ['names different signers', ({ log }) => ({ log: { ...log, signers: ['MCowBQYDK2VwAyEA'] } })],
  ['names a data file twice', ({ data }) => ({ data: [...data, ...data.slice(0, 1)] })],
])('a manifest with a correct checksum that %s is refused', async (_what, change) => {
  await done(backup);
  forgeManifest('copy', change);
  for (const line of ['backup verify copy', restore])
    await refused(line, 1, 'the backup is damaged: manifest.json');
});

test('a changed manifest is refused for its checksum', async () => {
  await done(backup);
  const path = join(folder, 'copy', 'manifest.json');
  writeFileSync(path, readFileSync(path, 'utf8').replace('"createdAt": "2', '"createdAt": "3'));
  await refused('backup verify copy', 1, 'the backup is damaged: manifest.json');
});

function newSigner(name: string): Signer {
  const { privateKey } = generateKeyPairSync('ed25519');
  const file = join(folder, `${name}.pem`);
  writeFileSync(file, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  return loadSigner(file);
}

test('a restore names the log’s signers, and writes nothing unless they are confirmed', async () => {
  await done(backup);
  await refused(`${restore} --dry-run`, 0, 'its log is not signed');
  await refused(restore.replace(' --allow-unsigned', ''), 6, 'skips the comparison of the signers');
  await refused(`${restore} --trust-signer ${'a'.repeat(64)}`, 6, 'it is not signed');

  const [own, foreign] = [newSigner('own'), newSigner('foreign')];
  rmSync(join(folder, 'log'), { recursive: true });
  writer = new ChainWriter({ log: 'signed-log', signer: own });
  await append(writer.open(), ...tiers(2));
  await done(backup.replace('copy', 'signed'));
  const signed = restore.replace('copy', 'signed');
  const fingerprint = computeFingerprint(own.publicKey);
  await refused(`${signed.replace(' --yes', '')} --dry-run`, 0, `signed by ${fingerprint}`);
  await refused(`${signed} --dry-run`, 6, 'skips the comparison of the signers');
  await refused(signed, 6, 'skips the comparison of the signers');
  await refused(`${signed} --trust-signer ${computeFingerprint(foreign.publicKey)}`, 6, 'is refused');
  await refused(`${signed} --trust-signer nothing`, 2, 'no file can be read at nothing');
  // The untrusted signer of the first commit must be found, even behind more junk records than one read returns.
  const path = join(folder, 'signed', 'manifest.json');
  const whole = readFileSync(path);
  const name = 'log-000001.jsonl.gz';
  const file = join(folder, 'signed', name);
  const commits = readFileSync(file);
  const junk = `${JSON.stringify({ offset: 1, value: Buffer.from('junk').toString('base64') })}\n`.repeat(
    500,
  );
  writeFileSync(file, gzipSync(Buffer.concat([Buffer.from(junk), gunzipSync(commits)])));
  forgeManifest('signed', ({ segments }) => ({
    segments: segments.map((segment) => ({ ...segment, ...factsOf(`signed/${name}`) })),
  }));
  await refused(`${signed} --trust-signer ${computeFingerprint(foreign.publicKey)}`, 6, 'is refused');
  writeFileSync(file, commits);
  writeFileSync(path, whole);
  expect(existsSync(join(folder, 'new-cp'))).toBe(false);
  const pins = `--trust-signer ${computeFingerprint(foreign.publicKey)} --trust-signer ${fingerprint}`;
  expect(await done(`${signed} ${pins}`)).toMatchObject({ log: 'signed-log', position: 3 });
});

test('a log that was signed only later can be restored only with --allow-unsigned', async () => {
  const own = newSigner('own');
  const added = [writer.add([known('log.signers_set', { signers: [own.publicKey] })]), ...tiers(1)];
  await append(...added.map((record) => ({ ...record, signature: own.sign(record.value) })));
  await done(backup);
  const fingerprint = computeFingerprint(own.publicKey);
  await refused(`${restore} --trust-signer ${fingerprint}`, 6, 'is refused');
  for (const dryRun of ['', ' --dry-run'])
    await refused(restore.replace(' --allow-unsigned', dryRun), 6, 'begun unsigned, add --allow-unsigned');
  await refused(`${restore} --dry-run`, 0, `begun unsigned, and is signed by ${fingerprint} now`);
  expect(await done(restore)).toMatchObject({ log: 'log-of-the-test', position: 8 });
});

const erases = (table: string, column: string): string =>
  `CREATE TRIGGER t AFTER INSERT ON ${table} BEGIN DELETE FROM ${table} WHERE ${column} = 'acme'; END`;

test.each([
  ['usage-000001.db', erases('total', 'organisation')],
  ['usage-000001.db', 'DROP TABLE visitor; CREATE VIEW visitor AS SELECT 1 AS id, 2 AS turns, 3 AS last_at'],
  ['usage-000001.db', 'CREATE TABLE other (a)'],
  ['usage-000001.db', 'CREATE VIRTUAL TABLE other USING fts5(a)'],
  ['usage-000001.db', 'CREATE INDEX other ON total (requests)'],
  ['usage-000001.db', 'ALTER TABLE total ADD COLUMN more TEXT AS (organisation) VIRTUAL'],
  ['gateways-000001.db', erases('gateway', 'incarnation')],
  ['gateways-000001.db', "ALTER TABLE gateway ADD COLUMN more TEXT DEFAULT 'x'"],
])(
  'a backup whose %s has an extended schema is refused, and so is that file at a start: %s',
  async (file, sql) => {
    new GatewaysFile(join(folder, 'cp', 'gateways.db'), () => undefined).close();
    await done(backup);
    const db = openDatabase(join(folder, 'copy', file), { durability: 'normal' });
    db.exec(sql);
    db.close();
    forgeManifest('copy', ({ data }) => ({
      data: data.map((copy) => (copy.file === file ? { ...copy, ...factsOf(`copy/${file}`) } : copy)),
    }));
    await refused('backup verify copy', 1, `the backup is damaged: ${file}`);
    await refused(restore, 1, 'the schema of');
    expect(existsSync(join(folder, 'new-cp'))).toBe(false);
    const path = join(folder, 'copy', file);
    if (file.startsWith('usage')) expect(() => openUsageStore(path)).toThrow('the schema of');
    const faults: Error[] = [];
    if (file.startsWith('gateways')) {
      new GatewaysFile(path, (error) => faults.push(error)).close();
      expect(faults[0]?.message).toContain('the schema of');
    }
  },
);

test.each(otherThanFiles)('a backup with %s in place of a file is refused at once', async (_what, put) => {
  for (const file of ['usage-000001.db', 'log-000001.jsonl.gz', 'manifest.json']) {
    rmSync(join(folder, 'copy'), { recursive: true, force: true });
    await done(backup);
    const path = join(folder, 'copy', file);
    rmSync(path);
    put(path);
    for (const line of ['backup verify copy', restore])
      await refused(line, 1, `the backup is damaged: ${file}`);
  }
});
