import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MemoryLog, MemoryTopic } from '../../shared/log/memory-log.ts';
import { UsageReplicator } from '../../shared/usage/usage-replicator.ts';
import { openUsageStore, type UsageStore } from '../../shared/usage/usage-store.ts';
import { type CompletedRequest, Meter, type MeterOptions } from './meter.ts';
import { openMeter } from './open-meter.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';

const period = '2026-11-10';
const atMs = Date.parse('2026-11-21T10:00:00.000Z');

let folder: string;
const closers: (() => Promise<void> | void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-meter-'));
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true });
});

function completed(more: Partial<CompletedRequest> = {}): CompletedRequest {
  return {
    owner: { organisation: 'acme', anchor: '2025-01-10' },
    atMs,
    draw: 'pool',
    model: 'echo-small',
    promptTokens: 3,
    completionTokens: 4,
    requestId: 'r-1',
    ...more,
  };
}

interface Gateway {
  readonly outbox: Outbox;
  readonly store: UsageStore;
  readonly meter: Meter;
}
/** A gateway with files of its own, folding by hand. */
function gateway(name: string, more: Partial<MeterOptions> = {}): Gateway {
  const outbox = openOutbox({ path: join(folder, name, 'outbox.db') });
  const store = openUsageStore(join(folder, name, 'usage.db'));
  closers.push(
    () => outbox.close(),
    () => store.close(),
  );
  return { outbox, store, meter: new Meter({ outbox, store, ...more }) };
}
/** A gateway that ships and folds by itself. */
function runningGateway(name: string, topic: MemoryTopic): Gateway {
  const made = gateway(name);
  run(made, topic);
  return made;
}
function run({ outbox, store, meter }: Gateway, topic: MemoryTopic): void {
  const open = async () => new MemoryLog(topic);
  const onApplied = meter.applied.bind(meter);
  const replicator = new UsageReplicator({ store, partitions: 1, open, onApplied });
  const publisher = new Publisher({ outbox, partitions: 1, open });
  replicator.start();
  publisher.start();
  closers.push(
    () => replicator.stop(),
    () => publisher.stop(0),
  );
}
/** Folds the next shipment of the outbox into its own store. */
function foldNext({ outbox, store, meter }: Gateway): void {
  const shipment = outbox.nextShipment()!;
  const value = Buffer.from(`[${shipment.bodies.join(',')}]`);
  meter.applied(store.apply(0, [{ offset: store.nextOffset(0), value, signature: null }]));
  outbox.shipped(shipment);
}

test('Limits 4: a completed request counts at once, and once, before and after its row is folded', () => {
  const own = gateway('g1');
  own.meter.recordCompleted(completed());
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  own.outbox.flush();
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  own.meter.recordCompleted(completed({ promptTokens: 10 }));
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  foldNext(own);
  expect(own.store.poolTokens('acme', period)).toBe(7);
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  own.outbox.flush();
  foldNext(own);
  expect(own.store.poolTokens('acme', period)).toBe(21);
  expect(own.meter.poolTokens('acme', period)).toBe(21);
});

test('Limits 4: only the pool draws on the allowance, and each period has its own', () => {
  const { meter } = gateway('g1');
  meter.recordCompleted(completed({ draw: 'stack', stack: 'stk-a-b-c' }));
  meter.recordCompleted(completed({ draw: 'own' }));
  meter.recordCompleted(completed({ owner: { organisation: 'other', anchor: '2025-01-10' } }));
  expect(meter.poolTokens('acme', period)).toBe(0);
  meter.recordCompleted(completed({ atMs: Date.parse('2026-12-10T00:00:00Z') }));
  meter.recordCompleted(completed({ atMs: Date.parse('2026-12-09T23:59:59Z'), promptTokens: 0 }));
  expect(meter.poolTokens('acme', period)).toBe(4);
  expect(meter.poolTokensAt('acme', '2025-01-10', Date.parse('2026-12-15T00:00:00Z'))).toBe(7);
});

test('Limits 4: another anchor later moves no row that was recorded before', () => {
  const own = gateway('g1');
  own.meter.recordCompleted(completed());
  own.outbox.flush();
  foldNext(own);
  own.meter.recordCompleted(completed({ owner: { organisation: 'acme', anchor: '2026-11-20' } }));
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  expect(own.meter.poolTokens('acme', '2026-11-20')).toBe(7);
});

test('Limits 4: turns of an anonymous visitor count by visitor, not by organisation', () => {
  const own = gateway('g1');
  own.meter.recordCompleted(completed({ owner: { visitor: 'v1' } }));
  own.meter.recordCompleted(completed({ owner: { visitor: 'v1' } }));
  expect([own.meter.freeTurns('v1'), own.meter.freeTurns('v2')]).toEqual([2, 0]);
  own.outbox.flush();
  foldNext(own);
  expect(own.store.freeTurns('v1')).toBe(2);
  expect(own.meter.freeTurns('v1')).toBe(2);
});

test('Limits 4: an adjustment by hand counts, and never makes the usage negative', () => {
  const { meter } = gateway('g1', { adjustmentOf: (_, of) => (of === period ? -5 : 100) });
  meter.recordCompleted(completed());
  expect(meter.poolTokens('acme', period)).toBe(2);
  expect(meter.poolTokens('acme', '2026-12-10')).toBe(100);
  expect(meter.poolTokens('other', period)).toBe(0);
});

test('Limits 4: after a restart, rows that no one has folded yet still count', () => {
  const before = gateway('g1');
  before.meter.recordCompleted(completed());
  before.meter.recordCompleted(completed({ owner: { visitor: 'v1' } }));
  before.outbox.flush();
  foldNext(before);
  before.meter.recordCompleted(completed({ promptTokens: 20 }));
  before.outbox.close();
  before.store.close();
  const after = gateway('g1');
  expect(after.store.poolTokens('acme', period)).toBe(7);
  expect(after.meter.poolTokens('acme', period)).toBe(7 + 24);
  expect(after.meter.freeTurns('v1')).toBe(1);
  foldNext(after);
  expect(after.store.poolTokens('acme', period)).toBe(7 + 24);
  expect(after.meter.poolTokens('acme', period)).toBe(7 + 24);
});

test('a count that no engine can mean is held to what a row may carry', () => {
  const { meter } = gateway('g1');
  meter.recordCompleted(completed({ promptTokens: Number.MAX_SAFE_INTEGER, completionTokens: 0 }));
  expect(meter.poolTokens('acme', period)).toBe(1_000_000_000);
});

test('a row that the outbox cannot keep does not count', () => {
  const own = gateway('g1');
  own.outbox.close();
  own.meter.recordCompleted(completed());
  expect(own.meter.poolTokens('acme', period)).toBe(0);
});

test('Limits 4: a completed request acts on the allowance of every gateway within a second', async () => {
  const topic = new MemoryTopic();
  const [one, two] = [runningGateway('g1', topic), runningGateway('g2', topic)];
  const startMs = performance.now();
  one.meter.recordCompleted(completed());
  two.meter.recordCompleted(completed({ promptTokens: 10 }));
  expect(one.meter.poolTokens('acme', period)).toBe(7);
  for (const each of [one, two])
    while (each.meter.poolTokens('acme', period) !== 21)
      await new Promise((resolve) => setImmediate(resolve));
  expect(performance.now() - startMs).toBeLessThan(1_000);
});

test('rows that the log lost after it had them are shipped again', async () => {
  const topic = new MemoryTopic();
  const own = gateway('g1');
  for (let count = 0; count < 3; count++) own.meter.recordCompleted(completed());
  own.outbox.flush();
  own.outbox.shipped(own.outbox.nextShipment()!);
  run(own, topic);
  own.meter.recordCompleted(completed());
  while (own.store.poolTokens('acme', period) !== 28) await new Promise((resolve) => setImmediate(resolve));
  expect(own.meter.poolTokens('acme', period)).toBe(28);
  expect(own.store.counts).toMatchObject({ applied: 4, lost: 0, differing: 0 });
});

test('a meter over the embedded log keeps its totals over a restart', async () => {
  const lookup = { usageAdjustment: () => 0 };
  const options = {
    logUrl: `sqlite:${join(folder, 'log')}`,
    dataDir: join(folder, 'gateway'),
    lookup,
    logger: pino({ level: 'silent' }),
  };
  const before = await openMeter(options);
  before.meter.recordCompleted(completed());
  await before.close();
  rmSync(join(folder, 'gateway', 'usage.db'));
  const after = await openMeter(options);
  closers.push(() => after.close());
  expect(after.meter.poolTokens('acme', period)).toBe(7);
  expect(after.meter.unshippedRows).toBe(0);
});
