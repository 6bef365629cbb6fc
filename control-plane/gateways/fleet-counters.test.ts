/** Tests how a control plane handles gateways' counters, on an in-memory log and with a real fold of usage rows. */
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  type CounterRecord,
  countersTopic,
  readCounterRecord,
  rowsReplica,
} from '../../schemas/records/limits.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { measureCounterFeed } from '../../shared/limits/counter-feed-metrics.ts';
import { CounterState } from '../../shared/limits/counters.ts';
import { LimitTopic } from '../../shared/log/limit-topic.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { usageMac } from '../../test/support/usage-mac.ts';
import { openUsageStore, type UsageStore } from '../usage/usage-store.ts';
import { FleetCounters } from './fleet-counters.ts';

const hourMs = 3600_000;
const period = `${new Date().toISOString().slice(0, 8)}01`;
const warnings: unknown[] = [];
const logger = {
  warn: (fields: object) => void warnings.push(fields),
  error: () => undefined,
  fatal: () => undefined,
};

let folder: string;
let memory: MemoryTopic;
let usage: UsageStore;
let nowMs: number;
let closing: (() => Promise<void>)[];
beforeEach(() => {
  folder = folderOfTest('counters');
  memory = new MemoryTopic(() => nowMs);
  usage = openUsageStore(':memory:', { keepRows: true, mac: usageMac });
  nowMs = Date.now();
  closing = [];
  warnings.length = 0;
});
afterEach(async () => {
  for (const close of closing) await close();
  usage.close();
});

function topic(): LimitTopic {
  const open = async () => new MemoryLog(memory);
  return new LimitTopic({ topic: countersTopic, open, tokens: ['token-of-sixteen-bytes'] });
}

/** Opens a control plane. The same name reuses the data folder. */
function plane(name = 'plane') {
  const copy = openCounterCopy(join(folder, name, 'counters.db'));
  const options = { process: `process-of-${name}`, topic: topic(), copy, usage, logger, now: () => nowMs };
  const counters = new FleetCounters(options);
  counters.start();
  let isStopped = false;
  const stop = async (): Promise<void> => {
    if (!isStopped) await counters.stop();
    isStopped = true;
  };
  closing.push(stop);
  return { counters, stop };
}

function gateway() {
  const own = topic();
  closing.push(() => own.close());
  const publish = (record: Partial<CounterRecord>): Promise<number> =>
    own.append(
      Buffer.from(
        JSON.stringify({
          ...{ v: 1, replica: 'replica-1', process: 'process-1', name: 'edge', at: nowMs, entries: [] },
          ...record,
        }),
      ),
    );
  const published = (replica: string): CounterRecord[] =>
    memory.read(0, 1000, 1e9).flatMap(({ value }) => {
      const record = readCounterRecord(value);
      return record?.replica === replica ? [record] : [];
    });
  return { publish, published };
}

const incarnation = '6a3b7a08-0f0e-4b6e-9c1b-6f8f5d3b0002';

function row(n: number, tokens: number) {
  const ids = { v: 1, incarnation, replica: incarnation, n };
  const what = { organisation: 'acme', period, draw: 'pool', model: 'echo-small', requestId: `r-${n}` };
  const counts = { promptTokens: tokens, completionTokens: 0 };
  return { ...ids, at: new Date(nowMs).toISOString(), ...what, ...counts };
}

let offset = 0;
function fold({ counters }: { readonly counters: FleetCounters }, ...rows: object[]): void {
  const value = Buffer.from(JSON.stringify(rows));
  counters.onApplied(usage.apply(0, [{ offset: offset++, value, signature: usageMac.of(value) }]));
}

beforeEach(() => {
  offset = 0;
});

test('a restore’s total for lost counters is published at once and counts once across control planes', async () => {
  const state = new CounterState();
  const restored = { id: rowsReplica, process: 'the-restore', name: undefined, ownMs: 0, anyMs: 0 };
  state.restore(restored, [['acme', period, 70, 2]]);
  const copy = openCounterCopy(join(folder, 'one', 'counters.db'));
  copy.save(state, 0);
  copy.close();
  const { publish, published } = gateway();
  await publish({ entries: [['acme', period, 100, 1]] });
  const planes = [plane('one'), plane('other')];
  await until(() => published(rowsReplica).length === 1);
  nowMs += 1.1 * hourMs;
  planes[0]?.counters.sweep();
  await until(() => published(rowsReplica).length === 2);
  for (const { counters } of planes) {
    await until(() => counters.used('acme', period).tokens === 170);
    expect(counters.used('acme', period)).toMatchObject({ tokens: 170, turns: 3 });
  }
});

test.each([-40, 40])(
  'counters are kept while the log’s time or a starting control plane’s clock is off by %i days',
  async (days) => {
    const offMs = days * 24 * hourMs;
    const trueMs = nowMs;
    memory = new MemoryTopic(() => trueMs + offMs);
    const first = plane();
    await gateway().publish({ entries: [['acme', period, 100, 1]] });
    await until(() => first.counters.used('acme', period).tokens === 100);
    await first.stop();
    nowMs += offMs;
    expect(plane().counters.used('acme', period)).toMatchObject({ tokens: 100, turns: 1 });
  },
);

test('one control plane republishes a silent gateway’s counters each hour, since the topic keeps one day', async () => {
  const [one, other] = [plane('one'), plane('other')];
  const { publish, published } = gateway();
  await publish({ entries: [['acme', period, 100, 1]] });
  for (const { counters } of [one, other]) await until(() => counters.used('acme', period).tokens === 100);
  one.counters.sweep();
  nowMs += 1.9 * hourMs;
  one.counters.sweep();
  expect(published('replica-1')).toHaveLength(1);
  nowMs += 0.2 * hourMs;
  one.counters.sweep();
  await until(() => published('replica-1').length === 2);
  expect(published('replica-1')[1]).toMatchObject({
    process: 'process-1',
    entries: [['acme', period, 100, 1]],
  });
  await until(() => other.counters.feed.position === memory.end);
  other.counters.sweep();
  await other.stop();
  expect(published('replica-1')).toHaveLength(2);
  expect(other.counters.used('acme', period).tokens).toBe(100);
});

test('a control plane reports by how much counters and rows differ at rest, and only then', async () => {
  const only = plane();
  const { publish } = gateway();
  await publish({
    entries: [
      ['acme', period, 100, 1],
      ['visitors:all', period, 5, 1],
    ],
  });
  await until(() => only.counters.used('acme', period).tokens === 100);
  fold(only, row(1, 60));
  for (let sweep = 0; sweep < 3; sweep++) only.counters.sweep();
  // Rows take time to arrive, so no difference is reported until both sides have been stable for a while.
  expect(only.counters.differenceTokens).toBe(0);
  only.counters.sweep();
  expect(only.counters.differenceTokens).toBe(40);
  expect(warnings).toContainEqual({ differenceTokens: 40 });
  fold(only, row(2, 40));
  for (let sweep = 0; sweep < 5; sweep++) only.counters.sweep();
  expect(only.counters.differenceTokens).toBe(0);
});

test('missing rows of the usage log are requested on the topic', async () => {
  const only = plane();
  const { published } = gateway();
  fold(only, row(1, 10), row(3, 10));
  await until(() => published(rowsReplica).some(({ gaps }) => gaps !== undefined));
  expect(published(rowsReplica).flatMap(({ gaps = [] }) => gaps)).toContainEqual([incarnation, 2]);
});

test('foreign, cut, forged, huge or out-of-range records change nothing and are counted', async () => {
  const { counters } = plane();
  const { publish } = gateway();
  const registry = new Registry();
  measureCounterFeed(registry, () => counters.feed.counts);
  await publish({ entries: [['acme', period, 100, 1]] });
  const value = Buffer.from(
    JSON.stringify({ v: 1, replica: 'replica-2', process: 'process-2', at: 1, entries: [] }),
  );
  memory.add(value);
  memory.add(value, Buffer.alloc(32, 7));
  memory.add(Buffer.alloc(200 * 1024));
  const own = topic();
  closing.push(() => own.close());
  await own.append(value.subarray(0, 20));
  // Publishes entries of a past and of a future period, signed with a valid gateway token.
  await publish({
    entries: [
      ['acme', '2020-01-01', 9, 9],
      ['acme', '2090-01-01', 9, 9],
    ],
  });
  await until(() => counters.feed.position === memory.end);
  expect(counters.feed.counts.rejected).toBe(6);
  expect(await registry.metrics()).toContain('headgate_counters_rejected_total 6');
  expect(counters.used('acme', period)).toMatchObject({ tokens: 100, turns: 1 });
  expect(counters.valuesOf('acme', period)).toHaveLength(1);
});

test('a control plane continues from its copy, and replacing the topic changes no sum', async () => {
  const before = plane();
  const { publish } = gateway();
  await publish({ entries: [['acme', period, 100, 1]] });
  await until(() => before.counters.used('acme', period).tokens === 100);
  await before.stop();
  memory.replace();
  const after = plane();
  expect(after.counters.used('acme', period)).toMatchObject({ tokens: 100, turns: 1 });
  await publish({ entries: [['acme', period, 90, 1]] }).catch(() => undefined);
  await until(async () => (await publish({ entries: [['acme', period, 120, 2]] }).catch(() => -1)) >= 0);
  await until(() => after.counters.used('acme', period).tokens === 120);
  const text = [...after.counters.lines()].join('');
  expect(text).toContain(JSON.stringify([['acme', period, 120, 2]]));
});
