/**
 * What a control plane keeps of completed requests, and what that costs: the fold, the files of days, sums, and exports. The rows lie
 * in thirty days of 200 organisations with three keys each. Processor time is that of the thread of the event loop. `--rows N`.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { dayMs } from '../schemas/durations.ts';
import { checkUsage } from '../shared/usage/check-usage.ts';
import { dayFolderOf } from '../shared/usage/day-files.ts';
import { RowMover } from '../shared/usage/row-mover.ts';
import { openUsageStore, type UsageStore } from '../shared/usage/usage-store.ts';

const { values } = parseArgs({ options: { rows: { type: 'string', default: '1000000' } } });
const rowCount = Number(values.rows);
const days = 30;
const organisations = 200;
const keysOfOne = 3;
const models = 8;
const rowsInRecord = 500;
/** Rows that arrive between two moves. */
const rowsAtOnce = 40_000;
const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
const firstMs = Math.floor(Date.now() / dayMs) * dayMs - days * dayMs;
const period = new Date(firstMs).toISOString().slice(0, 10);

/** Processor time of this thread so far, ms. */
function loopMs(): number {
  return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
}

const round = (value: number): number => Number(value.toPrecision(3));

function row(n: number): object {
  const organisation = (n * 7) % organisations;
  return {
    ...{
      v: 1,
      incarnation,
      replica: incarnation,
      n,
      organisation: `org-${organisation}`,
      period,
      draw: 'pool',
    },
    at: new Date(firstMs + Math.floor((n / rowCount) * days * dayMs)).toISOString(),
    ...{ model: `model-${n % models}`, promptTokens: 900 + (n % 200), completionTokens: 300 },
    ...{ key: `key-${organisation}-${n % keysOfOne}`, ttftMs: 120, durationMs: 2500 },
    requestId: `req_${String(n).padStart(24, '0')}`,
  };
}

function fold(store: UsageStore, from: number, to: number): number {
  let tookMs = 0;
  for (let n = from; n < to; n += rowsInRecord) {
    const count = Math.min(rowsInRecord, to - n);
    const value = Buffer.from(JSON.stringify(Array.from({ length: count }, (_, at) => row(n + at + 1))));
    const beganMs = loopMs();
    store.apply(0, [{ offset: n, value, signature: null }]);
    tookMs += loopMs() - beganMs;
  }
  return tookMs;
}

/** All rows of the days, as the route of the export reads them. */
function exported(store: UsageStore, query: { readonly from?: string; readonly to?: string }) {
  const { from = '', to = '9' } = query;
  const beganMs = loopMs();
  let rows = 0;
  for (let afterId = 0; ; ) {
    const read = store.requests({ ...query, afterId, limit: rowsInRecord });
    const wanted = read.filter(({ row: { at } }) => at >= from && at < to);
    rows += wanted.length;
    for (const { row: each } of wanted) JSON.stringify(each);
    if (read.length < rowsInRecord) break;
    afterId = read.at(-1)?.id ?? 0;
  }
  return { rows, ms: round(loopMs() - beganMs) };
}

function bytesIn(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

async function run(folder: string): Promise<Record<string, unknown>> {
  const path = join(folder, 'usage.db');
  const store = openUsageStore(path, { keepRows: true, acceptUnsigned: true });
  const quiet = () => undefined;
  const logger = { warn: quiet, error: quiet, fatal: quiet };
  const mover = new RowMover({ rows: store.rows, path, keepDays: days + 5, logger });
  let [foldMs, moveMs] = [0, 0];
  for (let at = 0; at < rowCount; at += rowsAtOnce) {
    foldMs += fold(store, at, Math.min(at + rowsAtOnce, rowCount));
    const beganMs = loopMs();
    while (await mover.move());
    moveMs += loopMs() - beganMs;
  }
  const shownMs = loopMs();
  for (let n = 0; n < organisations; n++) store.totals(`org-${n}`, period);
  const showMs = (loopMs() - shownMs) / organisations;
  const dayOf = (n: number): string => new Date(firstMs + n * dayMs).toISOString().slice(0, 10);
  const day = exported(store, { from: dayOf(10), to: dayOf(11) });
  const all = exported(store, {});
  store.close();
  const beganMs = performance.now();
  const faults = checkUsage(path).length;
  return {
    rows: rowCount,
    foldMicroseconds: round((foldMs * 1000) / rowCount),
    moveMicroseconds: round((moveMs * 1000) / rowCount),
    sumsMegabytes: round(statSync(path).size / 1e6),
    rowsMegabytes: round(bytesIn(dayFolderOf(path)) / 1e6),
    usageShowMs: round(showMs),
    exportOfADay: day,
    exportOfAll: all,
    check: { faults, seconds: round((performance.now() - beganMs) / 1000) },
  };
}

// The thread that moves rows does not keep a process alive.
const alive = setInterval(() => undefined, 60_000);
const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-usage-'));
try {
  const figures = await run(folder);
  console.table(
    Object.entries(figures).map(([name, value]) => ({
      name,
      value: typeof value === 'object' ? JSON.stringify(value) : value,
    })),
  );
  console.log(JSON.stringify(figures));
} finally {
  clearInterval(alive);
  rmSync(folder, { recursive: true });
}
