/**
 * What a control plane keeps of completed requests, and what that costs, from the topic to a restored backup: a process of its own
 * folds the rows and moves them into the files of their days, and is killed twice meanwhile; then `usage show`, exports, a restart,
 * and the same totals from a backup. The rows lie in thirty days of 200 organisations with three keys each. `--rows N`; ten million
 * take some 20 minutes and 14 GB of disk.
 */
import { createReadStream, readdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { dayMs } from '../schemas/durations.ts';
import type { Fleet } from '../schemas/fleet.ts';
import { usageRecordRowsMax, usageTopic } from '../schemas/usage.ts';
import { RecordMac } from '../shared/log/core/record-mac.ts';
import { EmbeddedFile } from '../shared/log/embedded/embedded-file.ts';
import { embeddedLogPath } from '../shared/log/embedded/embedded-log.ts';
import { sleep } from '../shared/runtime/retry.ts';
import { openDatabase } from '../shared/runtime/sqlite.ts';
import { checkUsage } from '../shared/usage/check-usage.ts';
import { dayFolderOf } from '../shared/usage/day-files.ts';
import { gatewayToken, ProcessFleet } from '../test/support/process-fleet.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { MeteredPlane, seconds } from './support/metered-plane.ts';

const { values } = parseArgs({ options: { rows: { type: 'string', default: '1000000' } } });
const rowCount = Number(values.rows);
const days = 30;
const organisations = 200;
const keysOfOne = 3;
const models = 8;
const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
const firstMs = Math.floor(Date.now() / dayMs) * dayMs - days * dayMs;
const period = new Date(firstMs).toISOString().slice(0, 10);
const recordsAtOnce = 20;
/** Of the topic, of rows and their copies, and of what waits in between. */
const diskBytesOfRow = 1_500;
/** Parts of the rows after which the process that folds them is killed. */
const killedAfter = [0.3, 0.6];
const dayMeasured = 10;
const watchMs = 250;

const round = (value: number): number => Number(value.toPrecision(3));
const megabytes = (bytes: number): number => round(bytes / 1e6);
const dayOf = (n: number): string => new Date(firstMs + n * dayMs).toISOString().slice(0, 10);

const common = JSON.stringify({
  ...{ v: 1, incarnation, replica: incarnation, period, draw: 'pool', completionTokens: 300 },
  ...{ ttftMs: 120, durationMs: 2500 },
}).slice(0, -1);

/** As text, because to write ten million objects takes minutes. */
function row(n: number): string {
  const organisation = (n * 7) % organisations;
  const at = new Date(firstMs + Math.floor((n / (rowCount + 1)) * days * dayMs)).toISOString();
  return (
    `${common},"n":${n},"at":"${at}","organisation":"org-${organisation}","model":"model-${n % models}",` +
    `"promptTokens":${900 + (n % 200)},"key":"key-${organisation}-${n % keysOfOne}",` +
    `"requestId":"req_${String(n).padStart(24, '0')}"}`
  );
}

/** Writes the topic as gateways do, and says how many bytes it has. */
function publish(path: string): number {
  const file = new EmbeddedFile({ path, durability: 'normal', allowTrimmed: true });
  const mac = new RecordMac(usageTopic, gatewayToken);
  for (let n = 1; n <= rowCount; ) {
    const records = [];
    while (records.length < recordsAtOnce && n <= rowCount) {
      const count = Math.min(usageRecordRowsMax, rowCount - n + 1);
      const value = Buffer.from(`[${Array.from({ length: count }, (_, at) => row(n + at)).join()}]`);
      records.push({ value, signature: mac.of(value) });
      n += count;
    }
    file.append(records, Date.now());
  }
  file.close();
  return statSync(path).size;
}

interface Reached {
  /** Rows folded, and rows in the files of their days. */
  readonly folded: number;
  readonly moved: number;
}

function reached(path: string): Reached {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    const sql =
      'SELECT coalesce((SELECT n FROM incarnation), 0) AS folded, (SELECT moved FROM kept) AS moved';
    return db.prepare<[], Reached>(sql).get() as Reached;
  } finally {
    db.close();
  }
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
const bytesIn = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + sizeOf(join(folder, name)), 0);

/** Of one process, until all rows are moved, or until it has folded so many and is killed. */
async function foldUntil(fleet: ProcessFleet, path: string, rows: number) {
  const metered = await MeteredPlane.start(fleet);
  const begunMs = performance.now();
  let [usageBytes, walBytes, residentMegabytes] = [0, 0, 0];
  for (
    let at = reached(path);
    at.folded < rows || (rows === rowCount && at.moved < rows);
    at = reached(path)
  ) {
    await sleep(watchMs);
    usageBytes = Math.max(usageBytes, sizeOf(path));
    walBytes = Math.max(walBytes, sizeOf(`${path}-wal`));
    residentMegabytes = Math.max(residentMegabytes, rssMegabytes(metered.pid));
  }
  const [longestMs, threadMs] = [await metered.longestTurnMs(), metered.threadMs()];
  const processMs = cpuMicroseconds(metered.pid) / 1000;
  const clockMs = performance.now() - begunMs;
  await metered.plane.end(rows === rowCount ? 'SIGTERM' : 'SIGKILL');
  console.log(`${rows} rows are folded after ${Math.round(clockMs / 1000)} s`);
  return { clockMs, threadMs, processMs, longestMs, usageBytes, walBytes, residentMegabytes };
}

type Part = Awaited<ReturnType<typeof foldUntil>>;

async function folded(fleet: ProcessFleet, path: string) {
  const parts: Part[] = [];
  for (const share of [...killedAfter, 1])
    parts.push(await foldUntil(fleet, path, Math.floor(share * rowCount)));
  const sum = (name: 'clockMs' | 'threadMs' | 'processMs') =>
    parts.reduce((all, part) => all + part[name], 0);
  const most = (name: keyof Part) => Math.max(...parts.map((part) => part[name]));
  return {
    'fold and move, clock, s': seconds(sum('clockMs')),
    'its event loop, µs a row': round((sum('threadMs') * 1000) / rowCount),
    'all of its threads, µs a row': round((sum('processMs') * 1000) / rowCount),
    'longest turn, ms': Math.round(most('longestMs')),
    'memory, MB': Math.round(most('residentMegabytes')),
    'largest usage.db meanwhile, MB': megabytes(most('usageBytes')),
    'largest write-ahead log, MB': megabytes(most('walBytes')),
  };
}

/** What is kept, and whether it is what was published. Throws where it is not. */
function kept(path: string) {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  const sums = ['total', 'hour_sum'].map((table) => {
    const sql = `SELECT sum(requests) AS requests, sum(prompt_tokens) AS prompt, count(*) AS rows FROM ${table}`;
    return db.prepare<[], Record<'requests' | 'prompt' | 'rows', number>>(sql).get();
  });
  db.close();
  let prompt = 0;
  for (let n = 1; n <= rowCount; n++) prompt += 900 + (n % 200);
  for (const sum of sums)
    if (sum?.requests !== rowCount || sum.prompt !== prompt)
      throw new Error(`${JSON.stringify(sums)} are not the sums of ${rowCount} requests of ${prompt} tokens`);
  const beganMs = performance.now();
  const faults = checkUsage(path);
  if (faults.length > 0) throw new Error(`sums and rows differ: ${JSON.stringify(faults)}`);
  return {
    'rows in the files of days, MB': megabytes(bytesIn(dayFolderOf(path))),
    'usage.db, MB': megabytes(sizeOf(path)),
    'sums by hour': sums[1]?.rows,
    'sums compared with all rows, s': seconds(performance.now() - beganMs),
  };
}

async function linesOf(path: string): Promise<number> {
  let lines = 0;
  for await (const piece of createReadStream(path))
    for (const byte of piece as Buffer) if (byte === 10) lines++;
  return lines;
}

/** Of the totals of an organisation in the way of the command line. */
async function shown(metered: MeteredPlane, fleet: ProcessFleet) {
  const env = { HEADGATE_ADMIN: metered.plane.ready.admin };
  const { stdout } = await fleet.cli(
    ['usage', 'show', '--org', 'org-7', '--period', period, '-o', 'json'],
    env,
  );
  const { requests, totalTokens } = JSON.parse(stdout) as Record<'requests' | 'totalTokens', number>;
  return { requests, totalTokens };
}

async function asked(fleet: ProcessFleet) {
  const beganMs = performance.now();
  const metered = await MeteredPlane.start(fleet);
  const [readyMs, threadMs] = [performance.now() - beganMs, metered.threadMs()];
  const output = join(fleet.dir, 'exported');
  const show = await metered.measure(['usage', 'show', '--org', 'org-7', '--period', period], output);
  const range = ['--from', dayOf(dayMeasured), '--to', dayOf(dayMeasured + 1)];
  const day = await metered.measure(['usage', 'export', ...range], output);
  const lines = await linesOf(output);
  if (Math.abs(lines - rowCount / days) > 1) throw new Error(`${lines} rows of a day were exported`);
  const all = await metered.measure(['usage', 'export'], '/dev/null');
  const totals = await shown(metered, fleet);
  await metered.plane.end();
  const restart = { 'clock, s': seconds(readyMs), 'its thread, s': seconds(threadMs) };
  return { commands: { restart, show, 'export of a day': day, 'export of all': all }, totals };
}

async function run(fleet: ProcessFleet, args: readonly string[]): Promise<number> {
  const beganMs = performance.now();
  const { code, stderr } = await fleet.cli(args, {}, 3_600_000);
  if (code !== 0) throw new Error(stderr);
  return seconds(performance.now() - beganMs);
}

/** A backup, and a control plane on what is restored from it. What was copied is removed, because of the room. */
async function restored(fleet: ProcessFleet, path: string) {
  const [copy, log, data] = ['copy', 'new-log', 'new'].map((name) => join(fleet.dir, name)) as [
    string,
    string,
    string,
  ];
  const backup = await run(fleet, ['backup', copy, '--data', join(fleet.dir, 'plane')]);
  const again = await run(fleet, ['backup', copy, '--data', join(fleet.dir, 'plane')]);
  const copied = megabytes(bytesIn(copy));
  rmSync(join(fleet.dir, 'plane'), { recursive: true });
  const to = ['--log', `sqlite:${log}`, '--data', data, '--allow-unsigned', '--yes'];
  const restore = await run(fleet, ['backup', 'restore', copy, ...to]);
  rmSync(copy, { recursive: true });
  kept(path);
  const metered = await MeteredPlane.start(fleet, 'new', { env: { HEADGATE_LOG: `sqlite:${log}` } });
  const totals = await shown(metered, fleet);
  await metered.plane.end();
  const figures = {
    'backup, s': backup,
    'the next one, s': again,
    'backup, MB': copied,
    'restore, s': restore,
  };
  return { figures, totals };
}

function document(): Fleet {
  const ids = Array.from({ length: organisations }, (_, n) => `org-${n}`);
  return {
    version: 1,
    tiers: [{ id: 'Wide', models: '*' }],
    organisations: ids.map((id) => ({ id, name: id, tier: 'Wide', anchor: '2026-01-01' })),
  };
}

const fleet = new ProcessFleet({ timeoutMs: 120_000 });
try {
  const { bavail, bsize } = statfsSync(fleet.dir);
  if (bavail * bsize < rowCount * diskBytesOfRow)
    throw new Error(`${rowCount} rows need ${megabytes(rowCount * diskBytesOfRow)} MB in ${fleet.dir}`);
  const first = await fleet.startPlane();
  await fleet.admin(first).apply(document());
  await first.end();
  const topic = embeddedLogPath(fleet.logFolder, { topic: usageTopic, partition: 0 });
  const topicMegabytes = megabytes(publish(topic));
  const path = join(fleet.dir, 'plane', 'usage.db');
  const fold = await folded(fleet, path);
  console.table(fold);
  const { commands, totals } = await asked(fleet);
  console.table(commands);
  for (const suffix of ['', '-wal', '-shm']) rmSync(topic + suffix, { force: true });
  const files = kept(path);
  console.table(files);
  const back = await restored(fleet, join(fleet.dir, 'new', 'usage.db'));
  if (JSON.stringify(back.totals) !== JSON.stringify(totals))
    throw new Error(`restored: ${JSON.stringify(back.totals)}, before: ${JSON.stringify(totals)}`);
  const figures = { rows: rowCount, 'topic, MB': topicMegabytes, ...fold, ...files, ...back.figures };
  console.table(figures);
  console.log(JSON.stringify({ ...figures, commands }));
} finally {
  await fleet.close();
}
