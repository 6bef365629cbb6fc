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
import { until, within } from '../../test/support/until.ts';
import { type CompletedRequest, Meter, type MeterOptions } from './meter.ts';
import { openMeter } from './open-meter.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { Publisher } from './publisher.ts';
import { UsageWorker } from './usage-worker.ts';
import type { UsageWorkerEvent, UsageWorkerRequest } from './worker-messages.ts';

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
  readonly worker: UsageWorker;
  readonly meter: Meter;
}
/** A gateway with its own files, folded by hand; messages arrive at once. */
function gateway(name: string, more: Partial<MeterOptions> = {}): Gateway {
  const outbox = openOutbox({ path: join(folder, name, 'outbox.db') });
  const store = openUsageStore(join(folder, name, 'usage.db'));
  closers.push(
    () => outbox.close(),
    () => store.close(),
  );
  let meter: Meter | undefined;
  const worker: UsageWorker = new UsageWorker({
    outbox,
    store,
    post: (event) => {
      if (event.kind === 'opened')
        meter = new Meter({ post: (request) => send(worker, request), ...event, ...more });
      else if (event.kind === 'state' || event.kind === 'totals') meter?.onEvent(event);
    },
  });
  worker.open();
  const opened = meter as unknown as Meter;
  for (const owner of [acme, { organisation: 'acme', anchor: '2026-11-20' }, { visitor: 'v1' }])
    for (const month of [0, 1]) void opened.loadTotal(owner, atMs + month * 28 * 24 * 3600 * 1000);
  return { outbox, store, worker, meter: opened };
}
function send(worker: UsageWorker, request: UsageWorkerRequest): void {
  if (request.kind !== 'close') worker.onRequest(structuredClone(request));
}
/** A gateway that publishes and folds by itself. */
function runningGateway(name: string, topic: MemoryTopic): Gateway {
  const made = gateway(name);
  run(made, topic);
  return made;
}
function run({ outbox, store, worker }: Gateway, topic: MemoryTopic): void {
  const open = async () => new MemoryLog(topic);
  const onApplied = worker.onApplied.bind(worker);
  const replicator = new UsageReplicator({ store, partitions: 1, open, onApplied });
  const publisher = new Publisher({ outbox, partitions: 1, open });
  replicator.start();
  publisher.start();
  closers.push(
    () => replicator.stop(),
    () => publisher.stop(0),
  );
}
/** Writes the recorded rows to the disk. */
function flush({ meter, outbox }: Gateway): void {
  meter.sendRows();
  outbox.flush();
}
/** Folds the next shipment of the outbox into its own store. */
function foldNext({ outbox, store, worker }: Gateway): void {
  const shipment = outbox.nextShipment()!;
  const value = Buffer.from(`[${shipment.bodies.join(',')}]`);
  worker.onApplied(store.apply(0, [{ offset: store.nextOffset(0), value, signature: null }]));
  outbox.markShipped(shipment);
}

test('Limits 4: a completed request counts at once, and once, before and after its row is folded', () => {
  const own = gateway('g1');
  own.meter.recordCompleted(completed());
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  flush(own);
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  own.meter.recordCompleted(completed({ promptTokens: 10 }));
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  foldNext(own);
  expect(own.store.poolTokens('acme', period)).toBe(7);
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  flush(own);
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
  flush(own);
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
  flush(own);
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

test('Limits 4: after a restart, rows that are not folded yet still count', () => {
  const before = gateway('g1');
  before.meter.recordCompleted(completed());
  before.meter.recordCompleted(completed({ owner: { visitor: 'v1' } }));
  flush(before);
  foldNext(before);
  before.meter.recordCompleted(completed({ promptTokens: 20 }));
  before.meter.sendRows();
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

test('a count that is too large for a row is clamped', () => {
  const { meter } = gateway('g1');
  meter.recordCompleted(completed({ promptTokens: Number.MAX_SAFE_INTEGER, completionTokens: 0 }));
  expect(meter.poolTokens('acme', period)).toBe(1_000_000_000);
});

test('a row that the outbox drops does not count', () => {
  const own = gateway('g1');
  own.outbox.close();
  own.meter.recordCompleted(completed());
  own.meter.sendRows();
  expect(own.meter.poolTokens('acme', period)).toBe(0);
});

test('Limits 4: a completed request acts on the allowance of every gateway within a second', async () => {
  const topic = new MemoryTopic();
  const [one, two] = [runningGateway('g1', topic), runningGateway('g2', topic)];
  one.meter.recordCompleted(completed());
  two.meter.recordCompleted(completed({ promptTokens: 10 }));
  expect(one.meter.poolTokens('acme', period)).toBe(7);
  await until(() => [one, two].every(({ meter }) => meter.poolTokens('acme', period) === 21), 1000);
});

test('rows that the log lost after it acknowledged them are shipped again', async () => {
  const topic = new MemoryTopic();
  const own = gateway('g1');
  for (let count = 0; count < 3; count++) own.meter.recordCompleted(completed());
  flush(own);
  own.outbox.markShipped(own.outbox.nextShipment()!);
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
  expect(await after.meter.loadTotal(acme, atMs)).toBe(true);
  expect(after.meter.poolTokens('acme', period)).toBe(7);
  expect(after.meter.unshippedRows).toBe(0);
});

test('the total of an account is requested once, and then cached', async () => {
  const asked: UsageWorkerRequest[] = [];
  const meter = new Meter({
    post: (request) => asked.push(request),
    pending: [[{ organisation: 'acme', period }, 3]],
  });
  const known = [meter.loadTotal(acme, atMs), meter.loadTotal(acme, atMs)];
  expect(asked).toEqual([{ kind: 'total', account: { organisation: 'acme', period } }]);
  meter.onEvent({ kind: 'totals', settled: [], totals: [[{ organisation: 'acme', period }, 20]] });
  expect(await Promise.all(known)).toEqual([true, true]);
  expect(meter.loadTotal(acme, atMs)).toBe(true);
  expect(meter.poolTokens('acme', period)).toBe(23);
});

test('a wait for a total that the worker does not send ends', async () => {
  const meter = new Meter({ post: () => undefined, pending: [], totalTimeoutMs: 20 });
  expect(await within(5000, Promise.resolve(meter.loadTotal(acme, atMs)))).toBe(false);
});

test('a late total resolves the waits that are still open and is cached for later ones', async () => {
  const asked: UsageWorkerRequest[] = [];
  const meter = new Meter({ post: (request) => asked.push(request), pending: [], totalTimeoutMs: 100 });
  const total = () =>
    meter.onEvent({ kind: 'totals', settled: [], totals: [[{ organisation: 'acme', period }, 20]] });
  const first = meter.loadTotal(acme, atMs);
  let second: true | Promise<boolean> = true;
  setTimeout(() => {
    second = meter.loadTotal(acme, atMs);
  }, 50);
  expect(await first).toBe(false);
  total();
  expect(await second).toBe(true);
  expect(meter.loadTotal(acme, atMs)).toBe(true);
  expect(meter.poolTokens('acme', period)).toBe(20);
  expect(asked).toHaveLength(1);
});

test('totals that were not requested are not cached', () => {
  const meter = new Meter({ post: () => undefined, pending: [] });
  meter.onEvent({ kind: 'totals', settled: [], totals: [[{ organisation: 'acme', period }, 20]] });
  expect(meter.poolTokens('acme', period)).toBe(0);
});

test('rows of requests that complete close together are sent together, and soon', async () => {
  const asked: UsageWorkerRequest[] = [];
  const meter = new Meter({ post: (request) => asked.push(request), pending: [] });
  for (const requestId of ['r-0', 'r-1', 'r-2']) meter.recordCompleted(completed({ requestId }));
  expect(asked).toEqual([]);
  await vi.waitFor(() => expect(asked).toHaveLength(1), { interval: 1 });
  const rows = asked.flatMap((request) => (request.kind === 'rows' ? JSON.parse(request.rows) : []));
  expect(rows.map(({ requestId }: { requestId: string }) => requestId)).toEqual(['r-0', 'r-1', 'r-2']);
  expect(meter.unshippedRows).toBe(3);
});

test('the meter is full once the worker has reported it, or rows have waited, for three seconds, or too many wait', () => {
  let nowMs = 0;
  const meter = new Meter({ post: () => undefined, pending: [], monotonicMs: () => nowMs });
  const state = (durable: number, isFull = false) =>
    meter.onEvent({ kind: 'state', received: durable, durable, unshipped: durable, isFull });
  expect(meter.isFull).toBe(false);
  state(0, true);
  nowMs = 3_000;
  state(0, true);
  expect(meter.isFull).toBe(false);
  nowMs += 1;
  expect(meter.isFull).toBe(true);
  state(0);
  expect(meter.isFull).toBe(false);
  nowMs = 10_000;
  meter.recordCompleted(completed());
  expect(meter.isFull).toBe(false);
  nowMs += 3_001;
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

test('requests wait while the worker is behind, all for one promise, and pass once it keeps up', async () => {
  let nowMs = 0;
  const meter = new Meter({ post: () => undefined, pending: [], monotonicMs: () => nowMs });
  const state = (durable: number, isFull = false) =>
    meter.onEvent({ kind: 'state', received: durable, durable, unshipped: durable, isFull });
  expect(meter.keepsUp()).toBe(true);
  for (let count = 0; count < 999; count++) meter.recordCompleted(completed());
  expect(meter.keepsUp()).toBe(true);
  meter.recordCompleted(completed());
  const byRows = meter.keepsUp();
  expect(byRows).toBeInstanceOf(Promise);
  expect(meter.keepsUp()).toBe(byRows);
  state(1);
  await byRows;
  expect(meter.keepsUp()).toBe(true);
  nowMs = 251;
  const byTime = meter.keepsUp();
  expect(byTime).toBeInstanceOf(Promise);
  state(1_000);
  await byTime;
  expect(meter.keepsUp()).toBe(true);
  state(1_000, true);
  const byDisk = meter.keepsUp();
  expect(byDisk).toBeInstanceOf(Promise);
  state(1_000);
  await byDisk;
});

test('a wait for a worker that never keeps up ends, and then the meter is full', async () => {
  vi.useFakeTimers();
  try {
    const meter = new Meter({ post: () => undefined, pending: [] });
    meter.onEvent({ kind: 'state', received: 0, durable: 0, unshipped: 0, isFull: true });
    const wait = meter.keepsUp();
    vi.advanceTimersByTime(3_200);
    await wait;
    expect(meter.isFull).toBe(true);
    expect(meter.keepsUp()).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test('a disk that keeps accepting rows is not late, however long rows wait in total', () => {
  let nowMs = 0;
  const meter = new Meter({ post: () => undefined, pending: [], monotonicMs: () => nowMs });
  for (let count = 0; count < 5; count++) meter.recordCompleted(completed());
  for (let durable = 1; durable < 5; durable++) {
    nowMs += 600;
    meter.onEvent({ kind: 'state', received: 5, durable, unshipped: 5, isFull: false });
    nowMs += 150;
    expect(meter.isFull).toBe(false);
    nowMs += 150;
    expect(meter.isFull).toBe(false);
  }
});

test('after an event-loop stall the meter reads the worker state before it reports that it is full', () => {
  let nowMs = 0;
  const meter = new Meter({ post: () => undefined, pending: [], monotonicMs: () => nowMs });
  for (let stall = 1; stall <= 3; stall++) {
    meter.recordCompleted(completed());
    nowMs += 5_000;
    // A request that came meanwhile is answered before the message that came meanwhile is read.
    expect(meter.isFull).toBe(false);
    meter.onEvent({ kind: 'state', received: stall, durable: stall, unshipped: stall, isFull: false });
    nowMs += 200;
    expect(meter.isFull).toBe(false);
  }
});

type Step = 'record' | 'flush' | 'fold' | 'onEvent';

test('Limits 4: however late the messages of the worker arrive, a request counts once from its completion on', () => {
  const step = fc.constantFrom<Step>('record', 'record', 'flush', 'fold', 'onEvent');
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const outbox = openOutbox({ path: join(folder, 'late', 'outbox.db') });
      const store = openUsageStore(join(folder, 'late', 'usage.db'));
      const events: UsageWorkerEvent[] = [];
      const worker: UsageWorker = new UsageWorker({ outbox, store, post: (event) => events.push(event) });
      worker.open();
      const meter = new Meter({ post: (request) => send(worker, request), pending: [] });
      void meter.loadTotal(acme, atMs);
      const onEvent = (): void => {
        const event = events.shift();
        if (event?.kind === 'state' || event?.kind === 'totals') meter.onEvent(event);
      };
      while (events.length > 0) onEvent();
      let expected = meter.poolTokens('acme', period);
      const steppers: Record<Step, () => void> = {
        record: () => {
          meter.recordCompleted(completed());
          expected += 7;
        },
        flush: () => {
          meter.sendRows();
          outbox.flush();
        },
        fold: () => {
          const shipment = outbox.nextShipment();
          if (!shipment) return;
          const value = Buffer.from(`[${shipment.bodies.join(',')}]`);
          worker.onApplied(store.apply(0, [{ offset: store.nextOffset(0), value, signature: null }]));
          outbox.markShipped(shipment);
        },
        onEvent,
      };
      for (const each of steps) {
        steppers[each]();
        expect(meter.poolTokens('acme', period)).toBe(expected);
      }
      meter.sendRows();
      outbox.flush();
      for (let index = 0; index < 31; index++) steppers.fold();
      while (events.length > 0) onEvent();
      expect(meter.poolTokens('acme', period)).toBe(expected);
      expect(store.poolTokens('acme', period)).toBe(expected);
      outbox.close();
      store.close();
    }),
    { numRuns: runs({ fast: 10, full: 30 }) },
  );
});
