/**
 * Tests the exchange of limits on an in-memory log: which requests are admitted, and what a gateway does when the log is
 * silent.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { decodeGauges, encodeGauges, inFlightWindow } from '../../schemas/records/gauges.ts';
import { gaugesTopic } from '../../schemas/records/limits.ts';
import {
  decodePlacements,
  encodePlacements,
  type PlacementReport,
} from '../../schemas/records/placements.ts';
import { LogUnavailable } from '../../shared/log/core/control-log.ts';
import { LimitTopic } from '../../shared/log/limit-topic.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { LimitExchange, type PlacementReporter } from './limit-exchange.ts';

let folder: string;
let memory: MemoryTopic;
let isAway: boolean;
/** If true, the log never acknowledges reports of placements. */
let areReportsStuck: boolean;
beforeEach(() => {
  areReportsStuck = false;
  folder = folderOfTest('exchange');
  memory = new MemoryTopic();
  isAway = false;
});

function topic(isCut = () => isAway): LimitTopic {
  return new LimitTopic({
    topic: gaugesTopic,
    open: async () => {
      const log = new MemoryLog(memory);
      const append = log.append.bind(log);
      log.append = (value, ...rest) => {
        if (areReportsStuck && decodePlacements(value) !== undefined) return new Promise(() => undefined);
        return isCut() ? Promise.reject(new LogUnavailable('away')) : append(value, ...rest);
      };
      return log;
    },
    tokens: ['token-of-sixteen-bytes'],
  });
}

async function gateway(
  dataDir = mkdtempSync(join(folder, 'gateway-')),
  isCut = () => isAway,
  placements?: PlacementReporter,
) {
  const registry = new Registry();
  const logger = { warn: () => undefined };
  const exchange = new LimitExchange({
    ...{ topic: topic(isCut), dataDir, name: 'edge', registry, logger },
    ...(placements && { placements }),
  });
  onTestFinished(() => exchange.close());
  exchange.start();
  await exchange.ready(5000);
  const metric = async (name: string): Promise<number> =>
    (await registry.getSingleMetric(name)?.get())?.values[0]?.value ?? Number.NaN;
  return { exchange, dataDir, metric };
}

const limit = { subject: 'acme', window: inFlightWindow, limit: 10 };
const never = new AbortController().signal;
const soon = (): number => performance.now() + 5000;
type Exchange = LimitExchange;

/** Admits a request as the limits do: decides, waits if that may help, and decides again. */
async function admit(exchange: Exchange, weight = 1, of = limit): Promise<boolean> {
  for (;;) {
    if (exchange.taken(of, weight) + weight <= of.limit) {
      exchange.add(of, weight);
      return true;
    }
    if (!((await exchange.waitForRoom(of, weight, soon(), never)) ?? false)) return false;
  }
}

test('Limits 2: two gateways share one limit, and room that one releases reaches the other without a refusal', async () => {
  const [one, other] = await Promise.all([gateway(), gateway()]);
  for (let n = 0; n < 8; n++) expect(await admit(one.exchange), `request ${n}`).toBe(true);
  expect(await admit(other.exchange)).toBe(true);
  expect(await admit(other.exchange)).toBe(true);
  await until(() => other.exchange.taken(limit, 1) >= 10);
  // The limit is full, so this request waits until the other gateway releases one.
  const waiting = admit(other.exchange);
  one.exchange.remove(limit, 1);
  // This gateway refuses at once if it knows that the other one uses everything. In that case, try again like a client.
  await until(async () => (await waiting) || (await admit(other.exchange)));
  expect(await other.metric('headgate_limit_waits_total')).toBeGreaterThan(0);
});

test('a wait ends when its client disconnects, and does not begin if waiting cannot help', async () => {
  const [one, other] = await Promise.all([gateway(), gateway()]);
  for (let n = 0; n < 10; n++) expect(await admit(one.exchange)).toBe(true);
  await until(() => other.exchange.taken(limit, 1) >= 10);
  expect(other.exchange.waitForRoom(limit, 1, performance.now() - 1, never)).toBeUndefined();
  expect(other.exchange.waitForRoom(limit, 1, soon(), AbortSignal.abort())).toBeUndefined();
  expect(one.exchange.waitForRoom(limit, 1, soon(), never)).toBeUndefined();
  const rest = { ...limit, subject: 'other' };
  one.exchange.add(rest, 8);
  other.exchange.add(rest, 1);
  const leaving = new AbortController();
  const waited = other.exchange.waitForRoom(rest, 1, soon(), leaving.signal);
  leaving.abort();
  if (waited !== undefined) expect(await waited).toBe(false);
});

test('room released bit by bit goes once to waiting requests, and the next request keeps waiting', async () => {
  const [one, other] = await Promise.all([gateway(), gateway()]);
  await until(() => [one, other].every(({ exchange }) => exchange.live === 2));
  const wide = { ...limit, limit: 100 };
  const mayAdmit = (): boolean => {
    const fits = one.exchange.taken(wide, 1) + 1 <= wide.limit;
    if (fits) one.exchange.add(wide, 1);
    return fits;
  };
  expect(await admit(one.exchange, 1, wide)).toBe(true);
  expect(await admit(one.exchange, 1, wide)).toBe(true);
  isAway = true;
  while (mayAdmit());
  const decided: boolean[] = [];
  const waits = [1, 2, 3].map(async () => {
    expect(await one.exchange.waitForRoom(wide, 1, soon(), never)).toBe(true);
    decided.push(mayAdmit());
  });
  one.exchange.remove(wide, 1);
  one.exchange.remove(wide, 1);
  await until(() => decided.length >= 2);
  isAway = false;
  await Promise.all(waits);
  expect(decided).toEqual([true, true, true]);
});

test('a restart on the same data folder ends the previous process and frees its concurrency at once', async () => {
  let isKilled = false;
  const first = await gateway(undefined, () => isKilled);
  const second = await gateway();
  for (let n = 0; n < 10; n++) expect(await admit(first.exchange)).toBe(true);
  await until(() => second.exchange.taken(limit, 1) >= 10);
  await until(() => first.exchange.live === 2);
  const file = join(first.dataDir, 'exchange.json');
  await until(async () => (await readFile(file, 'utf8')).includes('"live":2'));
  isKilled = true;
  // Simulates kill -9: the process sends nothing more, and its folder stays as it was.
  const killed = mkdtempSync(join(folder, 'killed-'));
  writeFileSync(join(killed, 'exchange.json'), await readFile(file));
  await gateway(killed);
  await until(() => second.exchange.taken(limit, 1) < 10);
});

test('foreign and malformed records are counted by cause, and entries with another time change nothing', async () => {
  const registry = new Registry();
  const reader = new LimitExchange({
    ...{ topic: topic(), dataDir: mkdtempSync(join(folder, 'reader-')), name: 'reader', registry },
    logger: { warn: () => undefined },
  });
  onTestFinished(() => reader.close());
  reader.start();
  const writer = topic();
  onTestFinished(() => writer.close());
  const far = { subject: 'acme', window: Date.now() + 1e7, limit: 10, used: 10, claim: 10 };
  const foreign = { process: 'p', name: 'p', n: 1, at: 0, ended: [], silent: [] };
  await writer.append(Buffer.from('[]'));
  await writer.append(encodeGauges({ ...foreign, entries: [far] }));
  memory.add(encodeGauges({ ...foreign, entries: [{ ...far, window: inFlightWindow }] }));
  const counts = async () => {
    const metric = await registry.getSingleMetric('headgate_limit_records_ignored_total')?.get();
    return Object.fromEntries((metric?.values ?? []).map(({ labels, value }) => [labels['cause'], value]));
  };
  await until(async () => Object.keys(await counts()).length === 2);
  expect(await counts()).toEqual({ 'not authentic': 1, malformed: 1 });
  await until(() => reader.taken(limit, 1) === 0);
});

test('without the log, a gateway reports since when, admits only its share, and publishes its end when it stops', async () => {
  const [one, other] = await Promise.all([gateway(), gateway()]);
  await until(() => [one, other].every(({ exchange }) => exchange.live === 2));
  isAway = true;
  await until(async () => (await one.metric('headgate_limit_feed_age_seconds')) > 2);
  let admitted = 0;
  while (await admit(one.exchange)) admitted++;
  expect(admitted).toBe(5);
  isAway = false;
  await until(async () => (await one.metric('headgate_limit_feed_age_seconds')) < 1);
  await one.exchange.close();
  const records: unknown[] = [];
  const reader = topic();
  onTestFinished(() => reader.close());
  const follower = reader.follower({
    from: 0,
    onFault: () => undefined,
    onBatch: (batch) => records.push(...batch.records.map(({ value }) => decodeGauges(value))),
  });
  follower.start();
  await until(() => records.some((each) => JSON.stringify(each).includes('9007199254740991')));
  await until(() => other.exchange.taken(limit, 1) === 0);
});

test('a placement report reaches the other gateways but not its writer, and claims still apply', async () => {
  const received: [reader: string, loads: PlacementReport['loads']][] = [];
  let loads: PlacementReport['loads'] = [['node-0', 3]];
  const placements = (reader: string): PlacementReporter => ({
    report: () => ({ loads: reader === 'one' ? loads : [], placements: [] }),
    receive: (report) => received.push([reader, report.loads]),
  });
  const one = await gateway(undefined, undefined, placements('one'));
  await gateway(undefined, undefined, placements('two'));
  const without = await gateway();
  await until(() => received.length > 0);
  loads = [];
  await until(() => received.at(-1)?.[1].length === 0);
  expect(new Set(received.map(([reader]) => reader))).toEqual(new Set(['two']));
  for (let n = 0; n < 10; n++) expect(await admit(one.exchange)).toBe(true);
  await until(() => without.exchange.taken(limit, 1) >= 10);
  expect(await without.metric('headgate_limit_records_ignored_total')).toBe(Number.NaN);
});

test('unacknowledged placement reports delay no claim, and old loads still expire', async () => {
  areReportsStuck = true;
  let reports = 0;
  const report = () => ({ loads: [['node-0', ++reports] as const], placements: [] });
  const one = await gateway(undefined, undefined, { report, receive: () => undefined });
  const other = await gateway();
  await until(() => reports > 10);
  for (let n = 0; n < 10; n++) expect(await admit(one.exchange)).toBe(true);
  await until(() => other.exchange.taken(limit, 1) >= 10);
});

test('a gateway that starts learns earlier placements, but ignores earlier loads', async () => {
  const writer = topic();
  onTestFinished(() => writer.close());
  const value = encodePlacements({
    process: 'stopped',
    loads: [['node-0', 3]],
    placements: [['acme', 1, 'node-0']],
  });
  await writer.append(value);
  const received: PlacementReport[] = [];
  const report = () => ({ loads: [], placements: [] });
  await gateway(undefined, undefined, { report, receive: (each) => received.push(each) });
  await writer.append(value);
  await until(() => received.length === 2);
  expect(received.map(({ loads, placements }) => [loads.length, placements.length])).toEqual([
    [0, 1],
    [1, 1],
  ]);
});

test('a report of many nodes is followed by a longer pause, because every gateway reads it', async () => {
  const loads = Array.from({ length: 600 }, (_, at) => [`node-${at}`, 1] as const);
  const readMs: number[] = [];
  const report = () => ({ loads, placements: [] });
  await gateway(undefined, undefined, { report, receive: () => undefined });
  await gateway(undefined, undefined, { report, receive: () => readMs.push(performance.now()) });
  await until(() => readMs.length >= 4);
  expect((readMs[3] ?? 0) - (readMs[1] ?? 0)).toBeGreaterThan(1000);
});
