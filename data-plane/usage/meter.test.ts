import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { UsageReplicator } from '../../shared/usage/usage-replicator.ts';
import { openUsageStore, type UsageStore } from '../../shared/usage/usage-store.ts';
import { runs } from '../../test/support/budget.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { type CompletedRequest, Meter, type MeterOptions } from './meter.ts';
import { openMeter } from './open-meter.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';
import { UsageDesk } from './usage-worker.ts';
import type { DeskNews, DeskRequest } from './worker-messages.ts';

const period = '2026-11-10';
const atMs = Date.parse('2026-11-21T10:00:00.000Z');
const acme = { organisation: 'acme', anchor: '2025-01-10' };

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
    owner: acme,
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
  readonly desk: UsageDesk;
  readonly meter: Meter;
}
/** A gateway with files of its own, folding by hand; what is said arrives at once. */
function gateway(name: string, more: Partial<MeterOptions> = {}): Gateway {
  const outbox = openOutbox({ path: join(folder, name, 'outbox.db') });
  const store = openUsageStore(join(folder, name, 'usage.db'));
  closers.push(
    () => outbox.close(),
    () => store.close(),
  );
  let meter: Meter | undefined;
  const desk: UsageDesk = new UsageDesk({
    outbox,
    store,
    say: (news) => {
      if (news.kind === 'opened')
        meter = new Meter({ ask: (request) => take(desk, request), ...news, ...more });
      else if (news.kind === 'state' || news.kind === 'totals') meter?.hear(news);
    },
  });
  desk.open();
  const opened = meter as unknown as Meter;
  for (const owner of [acme, { organisation: 'acme', anchor: '2026-11-20' }, { visitor: 'v1' }])
    for (const month of [0, 1]) void opened.knows(owner, atMs + month * 28 * 24 * 3600 * 1000);
  return { outbox, store, desk, meter: opened };
}
function take(desk: UsageDesk, request: DeskRequest): void {
  if (request.kind !== 'close') desk.take(structuredClone(request));
}
/** A gateway that ships and folds by itself. */
function runningGateway(name: string, topic: MemoryTopic): Gateway {
  const made = gateway(name);
  run(made, topic);
  return made;
}
function run({ outbox, store, desk }: Gateway, topic: MemoryTopic): void {
  const open = async () => new MemoryLog(topic);
  const onApplied = desk.applied.bind(desk);
  const replicator = new UsageReplicator({ store, partitions: 1, open, onApplied });
  const publisher = new Publisher({ outbox, partitions: 1, open });
  replicator.start();
  publisher.start();
  closers.push(
    () => replicator.stop(),
    () => publisher.stop(0),
  );
}
/** Brings what was recorded to the disk. */
function keep({ meter, outbox }: Gateway): void {
  meter.handOver();
  outbox.flush();
}
/** Folds the next shipment of the outbox into its own store. */
function foldNext({ outbox, store, desk }: Gateway): void {
  const shipment = outbox.nextShipment()!;
  const value = Buffer.from(`[${shipment.bodies.join(',')}]`);
  desk.applied(store.apply(0, [{ offset: store.nextOffset(0), value, signature: null }]));
  outbox.shipped(shipment);
}

test('Limits 4: a completed request counts at once, and once, before and after its row is folded', () => {
  const own = gateway('g1');
  own.meter.recordCompleted(completed());
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  keep(own);
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  own.meter.recordCompleted(completed({ promptTokens: 10 }));
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  foldNext(own);
  expect(own.store.poolTokens('acme', period)).toBe(7);
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  keep(own);
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
  keep(own);
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
  keep(own);
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
  keep(before);
  foldNext(before);
  before.meter.recordCompleted(completed({ promptTokens: 20 }));
  before.meter.handOver();
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
  own.meter.handOver();
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
  keep(own);
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
    onLost: (error: Error) => {
      throw error;
    },
  };
  const before = await openMeter(options);
  before.meter.recordCompleted(completed());
  await before.close();
  rmSync(join(folder, 'gateway', 'usage.db'));
  const after = await openMeter(options);
  closers.push(() => after.close());
  expect(await after.meter.knows(acme, atMs)).toBe(true);
  expect(after.meter.poolTokens('acme', period)).toBe(7);
  expect(after.meter.unshippedRows).toBe(0);
});

test('what an account has used is asked for once, and then at hand', async () => {
  const asked: DeskRequest[] = [];
  const meter = new Meter({
    ask: (request) => asked.push(request),
    pending: [[{ organisation: 'acme', period }, 3]],
  });
  const known = [meter.knows(acme, atMs), meter.knows(acme, atMs)];
  expect(asked).toEqual([{ kind: 'total', account: { organisation: 'acme', period } }]);
  meter.hear({ kind: 'totals', settled: [], totals: [[{ organisation: 'acme', period }, 20]] });
  expect(await Promise.all(known)).toEqual([true, true]);
  expect(meter.knows(acme, atMs)).toBe(true);
  expect(meter.poolTokens('acme', period)).toBe(23);
});

test('a desk that does not tell what an account has used is waited for no longer than two seconds', async () => {
  const meter = new Meter({ ask: () => undefined, pending: [] });
  const startMs = performance.now();
  expect(await meter.knows(acme, atMs)).toBe(false);
  expect(performance.now() - startMs).toBeLessThan(5_000);
});

test('a total that comes late serves those who still wait for it, and those who come after', async () => {
  const asked: DeskRequest[] = [];
  const meter = new Meter({ ask: (request) => asked.push(request), pending: [] });
  const total = () =>
    meter.hear({ kind: 'totals', settled: [], totals: [[{ organisation: 'acme', period }, 20]] });
  const first = meter.knows(acme, atMs);
  let second: true | Promise<boolean> = true;
  setTimeout(() => {
    second = meter.knows(acme, atMs);
  }, 1_000);
  expect(await first).toBe(false);
  total();
  expect(await second).toBe(true);
  expect(meter.knows(acme, atMs)).toBe(true);
  expect(meter.poolTokens('acme', period)).toBe(20);
  expect(asked).toHaveLength(1);
});

test('totals that nobody asked for are not remembered', () => {
  const meter = new Meter({ ask: () => undefined, pending: [] });
  meter.hear({ kind: 'totals', settled: [], totals: [[{ organisation: 'acme', period }, 20]] });
  expect(meter.poolTokens('acme', period)).toBe(0);
});

test('rows that complete shortly one after the other are handed over together, and soon', async () => {
  const asked: DeskRequest[] = [];
  const meter = new Meter({ ask: (request) => asked.push(request), pending: [] });
  for (const requestId of ['r-0', 'r-1', 'r-2']) meter.recordCompleted(completed({ requestId }));
  expect(asked).toEqual([]);
  await vi.waitFor(() => expect(asked).toHaveLength(1), { interval: 1 });
  const rows = asked.flatMap((request) => (request.kind === 'rows' ? JSON.parse(request.rows) : []));
  expect(rows.map(({ requestId }: { requestId: string }) => requestId)).toEqual(['r-0', 'r-1', 'r-2']);
  expect(meter.unshippedRows).toBe(3);
});

test('usage cannot be kept while the desk says so, while too many rows wait, or while one waits too long', () => {
  let nowMs = 0;
  const meter = new Meter({ ask: () => undefined, pending: [], monotonicMs: () => nowMs });
  const state = (durable: number, isFull = false) =>
    meter.hear({ kind: 'state', taken: durable, durable, unshipped: durable, isFull });
  expect(meter.isFull).toBe(false);
  state(0, true);
  expect(meter.isFull).toBe(true);
  state(0);
  nowMs = 10_000;
  meter.recordCompleted(completed());
  expect(meter.isFull).toBe(false);
  nowMs += 1_001;
  expect(meter.isFull).toBe(false);
  nowMs += 101;
  expect(meter.isFull).toBe(true);
  state(1);
  expect(meter.isFull).toBe(false);
  for (let count = 0; count < 5_000; count++) meter.recordCompleted(completed());
  expect(meter.isFull).toBe(true);
  state(5_001);
  expect([meter.isFull, meter.unshippedRows]).toEqual([false, 5_001]);
});

test('a disk that takes the rows one after another is not late, however long rows wait all together', () => {
  let nowMs = 0;
  const meter = new Meter({ ask: () => undefined, pending: [], monotonicMs: () => nowMs });
  for (let count = 0; count < 5; count++) meter.recordCompleted(completed());
  for (let durable = 1; durable < 5; durable++) {
    nowMs += 600;
    meter.hear({ kind: 'state', taken: 5, durable, unshipped: 5, isFull: false });
    nowMs += 150;
    expect(meter.isFull).toBe(false);
    nowMs += 150;
    expect(meter.isFull).toBe(false);
  }
});

test('a gateway that stood still hears the desk before it says that usage cannot be kept', () => {
  let nowMs = 0;
  const meter = new Meter({ ask: () => undefined, pending: [], monotonicMs: () => nowMs });
  for (let stall = 1; stall <= 3; stall++) {
    meter.recordCompleted(completed());
    nowMs += 5_000;
    // A request that came meanwhile is answered before the message that came meanwhile is read.
    expect(meter.isFull).toBe(false);
    meter.hear({ kind: 'state', taken: stall, durable: stall, unshipped: stall, isFull: false });
    nowMs += 200;
    expect(meter.isFull).toBe(false);
  }
});

type Step = 'record' | 'flush' | 'fold' | 'hear';

test('Limits 4: however late the desk is heard, a request counts once from its completion on', () => {
  const step = fc.constantFrom<Step>('record', 'record', 'flush', 'fold', 'hear');
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const outbox = openOutbox({ path: join(folder, 'late', 'outbox.db') });
      const store = openUsageStore(join(folder, 'late', 'usage.db'));
      const said: DeskNews[] = [];
      const desk: UsageDesk = new UsageDesk({ outbox, store, say: (news) => said.push(news) });
      desk.open();
      const meter = new Meter({ ask: (request) => take(desk, request), pending: [] });
      void meter.knows(acme, atMs);
      const hear = (): void => {
        const news = said.shift();
        if (news?.kind === 'state' || news?.kind === 'totals') meter.hear(news);
      };
      while (said.length > 0) hear();
      let expected = meter.poolTokens('acme', period);
      const steppers: Record<Step, () => void> = {
        record: () => {
          meter.recordCompleted(completed());
          expected += 7;
        },
        flush: () => {
          meter.handOver();
          outbox.flush();
        },
        fold: () => {
          const shipment = outbox.nextShipment();
          if (!shipment) return;
          const value = Buffer.from(`[${shipment.bodies.join(',')}]`);
          desk.applied(store.apply(0, [{ offset: store.nextOffset(0), value, signature: null }]));
          outbox.shipped(shipment);
        },
        hear,
      };
      for (const each of steps) {
        steppers[each]();
        expect(meter.poolTokens('acme', period)).toBe(expected);
      }
      meter.handOver();
      outbox.flush();
      for (let index = 0; index < 31; index++) steppers.fold();
      while (said.length > 0) hear();
      expect(meter.poolTokens('acme', period)).toBe(expected);
      expect(store.poolTokens('acme', period)).toBe(expected);
      outbox.close();
      store.close();
    }),
    { numRuns: runs({ fast: 10, full: 30 }) },
  );
});
