import { randomUUID } from 'node:crypto';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { countersTopic } from '../../schemas/records/limits.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterState } from '../../shared/limits/counters.ts';
import { LimitTopic } from '../../shared/log/limit-topic.ts';
import { runs } from '../../test/support/budget.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until, within } from '../../test/support/until.ts';
import { CounterExchange } from './counter-exchange.ts';
import { Meter, type MeteredRequest, type MeterOptions } from './meter.ts';
import { openMeter } from './open-meter.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { type LogStart, openUsageLog } from './usage-log.ts';
import { UsageWorker } from './usage-worker.ts';
import { UsageWriter } from './usage-writer.ts';
import type { AccountLimit, UsageWorkerEvent, UsageWorkerRequest } from './worker-messages.ts';

const period = '2026-11-10';
const atMs = Date.parse('2026-11-21T10:00:00.000Z');
const acme = { organisation: 'acme', anchor: '2025-01-10' };

let folder: string;
const closers: (() => Promise<void> | void)[] = [];

beforeEach(() => {
  folder = folderOfTest('meter');
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function completed(more: Partial<MeteredRequest> = {}): MeteredRequest {
  return {
    owner: acme,
    atMs,
    capacity: 'pool',
    model: 'echo-small',
    promptTokens: 3,
    completionTokens: 4,
    requestId: 'r-1',
    ...more,
  };
}

interface Gateway {
  readonly outbox: Outbox;
  readonly worker: UsageWorker;
  readonly meter: Meter;
  readonly writer: UsageWriter;
  readonly others: CounterState;
}
interface GatewayOptions extends Partial<MeterOptions> {
  readonly onLimits?: (limits: readonly AccountLimit[]) => void;
  readonly live?: () => number;
}
const counts = { published: 0, rejected: 0 };
const noRecords = { shipped: 0, live: 1, countersPublished: 0, countersRejected: 0 };
function writerFor(start?: LogStart, onError?: (error: Error) => void): UsageWriter {
  const heading = { database: randomUUID(), incarnation: randomUUID() };
  const log = openUsageLog(start ?? { folder: join(folder, 'usage'), heading, from: 0 }, () => 0);
  const fail = (error: Error): void => {
    throw error;
  };
  const writer = new UsageWriter({ log, onError: onError ?? fail });
  closers.push(() => writer.close());
  return writer;
}
/** Returns a meter whose usage worker does nothing. */
function meterAlone({ writer = writerFor(), ...more }: Partial<MeterOptions> = {}): Meter {
  return new Meter({ post: () => undefined, writer, ...more });
}
/** Starts a gateway with files of its own, whose messages arrive immediately. */
function gateway(
  name: string,
  { onLimits = () => undefined, live = () => 1, ...more }: GatewayOptions = {},
): Gateway {
  const outbox = openOutbox({ path: join(folder, name, 'outbox.db') });
  closers.push(() => outbox.close());
  const others = new CounterState();
  let meter: Meter | undefined;
  let writer: UsageWriter | undefined;
  const worker: UsageWorker = new UsageWorker({
    ...{ outbox, counts, onLimits, live, others: (key: string) => others.sum(key) },
    post: (event) => {
      if (event.kind === 'opened') {
        writer = writerFor(event.log);
        meter = new Meter({ post: (request) => send(worker, request), writer, ...more });
      } else if (event.kind === 'state' || event.kind === 'totals') meter?.onEvent(event);
    },
  });
  worker.open();
  const opened = meter as unknown as Meter;
  const itsWriter = writer as unknown as UsageWriter;
  for (const owner of [acme, { organisation: 'acme', anchor: '2026-11-20' }, { visitor: 'v1' }])
    for (const month of [0, 1]) void opened.loadTotal(owner, atMs + month * 28 * 24 * 3600 * 1000);
  return { outbox, worker, meter: opened, writer: itsWriter, others };
}
function send(worker: UsageWorker, request: UsageWorkerRequest): void {
  if (request.kind !== 'close') worker.onRequest(structuredClone(request));
}
function readOthers({ others, worker }: Gateway, tokens: number): void {
  const entries = [['acme', period, tokens, 1]] as const;
  worker.onChanged(
    others.apply({ v: 1, replica: 'other', process: 'other', at: atMs, entries }, atMs).changed,
  );
}
const tokens = ['gateway-token-of-the-tests'] as const;
/** Starts a gateway that exchanges counters and has its own instance of the worker's parts. */
async function exchanging(name: string, topic: MemoryTopic): Promise<Gateway> {
  let exchange: CounterExchange | undefined;
  const made = gateway(name, {
    onLimits: (limits) => exchange?.onLimits(limits),
    live: () => exchange?.live ?? 1,
  });
  const { outbox, worker, others: state } = made;
  exchange = new CounterExchange({
    ...{ outbox, state, name, logger: pino({ level: 'silent' }) },
    copy: openCounterCopy(join(folder, name, 'counters.db')),
    topic: new LimitTopic({ topic: countersTopic, tokens, open: async () => new MemoryLog(topic) }),
    onChanged: (keys) => worker.onChanged(keys),
    onGaps: (gaps) => worker.onGaps(gaps),
  });
  const opened = exchange;
  closers.push(() => opened.stop());
  await opened.start();
  return made;
}
async function flush({ meter, outbox }: Gateway): Promise<void> {
  await meter.sendRows();
  outbox.flush();
}
test('Limits 4: a completed request counts at once, and only once, before and after it is on the disk', async () => {
  const own = gateway('g1');
  own.meter.record(completed());
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  await flush(own);
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  own.meter.record(completed({ promptTokens: 10 }));
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  await own.meter.sendRows();
  expect(own.meter.poolTokens('acme', period)).toBe(21);
  readOthers(own, 100);
  expect(own.meter.poolTokens('acme', period)).toBe(121);
  await flush(own);
  expect(own.meter.poolTokens('acme', period)).toBe(121);
  expect(own.outbox.ledger.get(`acme ${period}`)).toEqual({ tokens: 21, turns: 2 });
});

test('Limits 4: only pool capacity uses up the allowance, and each period has its own', () => {
  const { meter } = gateway('g1');
  meter.record(completed({ capacity: 'stack', stack: 'stk-a-b-c' }));
  meter.record(completed({ capacity: 'own' }));
  meter.record(completed({ owner: { organisation: 'other', anchor: '2025-01-10' } }));
  expect(meter.poolTokens('acme', period)).toBe(0);
  meter.record(completed({ atMs: Date.parse('2026-12-10T00:00:00Z') }));
  meter.record(completed({ atMs: Date.parse('2026-12-09T23:59:59Z'), promptTokens: 0 }));
  expect(meter.poolTokens('acme', period)).toBe(4);
  expect(meter.poolTokensAt('acme', '2025-01-10', Date.parse('2026-12-15T00:00:00Z'))).toBe(7);
});

test('Limits 4: a later change of the anchor moves no earlier row', async () => {
  const own = gateway('g1');
  own.meter.record(completed());
  await flush(own);
  own.meter.record(completed({ owner: { organisation: 'acme', anchor: '2026-11-20' } }));
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  expect(own.meter.poolTokens('acme', '2026-11-20')).toBe(7);
});

test('Limits 4: an anonymous visitor’s turns count for the visitor, not for an organisation', async () => {
  const own = gateway('g1');
  own.meter.record(completed({ owner: { visitor: 'v1' } }));
  own.meter.record(completed({ owner: { visitor: 'v1' } }));
  const turns = () => ['v1', 'v2'].map((visitor) => own.meter.freeTurns(visitor, atMs));
  expect(turns()).toEqual([2, 0]);
  await flush(own);
  expect(turns()).toEqual([2, 0]);
  expect(own.meter.visitorTokens(atMs)).toBe(14);
  expect(own.outbox.ledger.get('visitors:all 2026-11-21')).toEqual({ tokens: 14, turns: 2 });
  expect(own.meter.freeTurns('v1', Date.parse('2026-12-01T00:00:00Z'))).toBe(0);
});

test('Limits 4: a manual adjustment counts, and never makes usage negative', () => {
  const { meter } = gateway('g1', { adjustmentOf: (_, of) => (of === period ? -5 : 100) });
  meter.record(completed());
  expect(meter.poolTokens('acme', period)).toBe(2);
  expect(meter.poolTokens('acme', '2026-12-10')).toBe(100);
  expect(meter.poolTokens('other', period)).toBe(0);
});

test('Limits 4: after a restart, the usage in the folder still counts', async () => {
  const before = gateway('g1');
  before.meter.record(completed());
  before.meter.record(completed({ owner: { visitor: 'v1' } }));
  await flush(before);
  before.meter.record(completed({ promptTokens: 20 }));
  await before.meter.sendRows();
  const { replica } = before.outbox.ledger;
  before.outbox.close();
  const after = gateway('g1');
  expect(after.meter.poolTokens('acme', period)).toBe(7 + 24);
  expect(after.meter.freeTurns('v1', atMs)).toBe(1);
  expect(after.outbox.ledger.replica).toBe(replica);
});

test('a count that is too large for a row is clamped', () => {
  const { meter } = gateway('g1');
  meter.record(completed({ promptTokens: Number.MAX_SAFE_INTEGER, completionTokens: 0 }));
  expect(meter.poolTokens('acme', period)).toBe(1_000_000_000);
});

test('a row that the outbox rejects does not count', async () => {
  const own = gateway('g1');
  own.meter.record(completed({ model: 'no name of a model' }));
  expect(own.meter.poolTokens('acme', period)).toBe(7);
  await flush(own);
  expect(own.meter.poolTokens('acme', period)).toBe(0);
});

test('Limits 4: near the limit, a completed request reaches the allowance on every gateway within a second', async () => {
  const topic = new MemoryTopic();
  const [one, two] = [await exchanging('g1', topic), await exchanging('g2', topic)];
  one.meter.record(completed({ monthlyTokens: 100 }));
  two.meter.record(completed({ promptTokens: 10, monthlyTokens: 100 }));
  expect(one.meter.poolTokens('acme', period)).toBe(7);
  await until(() => [one, two].every(({ meter }) => meter.poolTokens('acme', period) === 21), 1000);
});

test('groups near the limit or of visitors are stored at once; others share a transaction', async () => {
  const own = await exchanging('g1', new MemoryTopic());
  const inDatabase = async (more: Partial<MeteredRequest>): Promise<number> => {
    await own.meter.sendRows();
    const [before, kept] = [own.outbox.unshipped, own.writer.keptRows];
    own.meter.record(completed(more));
    await until(() => own.writer.keptRows > kept);
    return own.outbox.unshipped - before;
  };
  expect(await inDatabase({ monthlyTokens: 1_000_000 })).toBe(0);
  expect(await inDatabase({ monthlyTokens: null })).toBe(0);
  expect(await inDatabase({ monthlyTokens: 400 })).toBe(1);
  expect(await inDatabase({ owner: { visitor: 'v1' } })).toBe(1);
});

test('far from the limit, counters are batched, and a process that ends publishes the rest', async () => {
  const topic = new MemoryTopic();
  const [one, two] = [await exchanging('g1', topic), await exchanging('g2', topic)];
  const before = topic.end;
  one.meter.record(completed({ monthlyTokens: 1_000_000 }));
  one.meter.record(completed({ owner: { organisation: 'free', anchor: '2025-01-10' } }));
  await flush(one);
  await new Promise((resolve) => setImmediate(resolve));
  expect(topic.end).toBe(before);
  for (const close of closers.splice(2, 1)) await close();
  await until(() => two.meter.poolTokens('acme', period) === 7, 1000);
});

test('two gateways with copies of one folder continue under their own ids, and nothing counts twice', async () => {
  const topic = new MemoryTopic();
  const first = gateway('g1');
  first.meter.record(completed());
  await flush(first);
  first.outbox.close();
  cpSync(join(folder, 'g1'), join(folder, 'g2'), { recursive: true });
  const [one, two] = [await exchanging('g1', topic), await exchanging('g2', topic)];
  await until(() => one.outbox.ledger.replica !== two.outbox.ledger.replica, 2000);
  one.meter.record(completed({ monthlyTokens: 100 }));
  two.meter.record(completed({ monthlyTokens: 100 }));
  await until(() => [one, two].every(({ meter }) => meter.poolTokens('acme', period) === 21), 1000);
});

test('acknowledged rows that the log lost are shipped again when a control plane names them', async () => {
  const own = gateway('g1');
  for (let count = 0; count < 3; count++) own.meter.record(completed());
  await flush(own);
  own.outbox.markShipped(own.outbox.nextShipment()!);
  expect(own.outbox.nextShipment()).toBeUndefined();
  own.worker.onGaps([
    ['00000000-0000-4000-8000-000000000000', 1],
    [own.outbox.incarnation, 2],
  ]);
  expect(own.outbox.nextShipment()?.bodies.map((body) => JSON.parse(body).n)).toEqual([2, 3]);
});

test('a meter over the embedded log keeps its totals across a restart', async () => {
  const lookup = { usageAdjustment: () => 0 };
  const options = {
    logUrl: `sqlite:${join(folder, 'log')}`,
    dataDir: join(folder, 'gateway'),
    ...{ name: 'gateway', gatewayToken: tokens[0], controlPlanes: [] },
    lookup,
    logger: pino({ level: 'silent' }),
    onLost: (error: Error) => {
      throw error;
    },
  };
  const before = await openMeter(options);
  before.meter.record(completed());
  await before.close();
  rmSync(join(folder, 'gateway', 'counters.db'));
  const after = await openMeter(options);
  closers.push(() => after.close());
  expect(await after.meter.loadTotal(acme, atMs)).toBe(true);
  expect(after.meter.poolTokens('acme', period)).toBe(7);
  expect(after.meter.unshippedRows).toBe(0);
});

test('an account’s total is requested once and then cached', async () => {
  const asked: UsageWorkerRequest[] = [];
  const meter = meterAlone({ post: (request) => asked.push(request) });
  const known = [meter.loadTotal(acme, atMs), meter.loadTotal(acme, atMs)];
  expect(asked).toEqual([{ kind: 'total', account: { subject: 'acme', period } }]);
  meter.onEvent({ kind: 'totals', settled: [], totals: [[{ subject: 'acme', period }, 20]] });
  expect(await Promise.all(known)).toEqual([true, true]);
  expect(meter.loadTotal(acme, atMs)).toBe(true);
  expect(meter.poolTokens('acme', period)).toBe(20);
});

test('waiting for a total that the worker does not send times out', async () => {
  const meter = meterAlone({ totalTimeoutMs: 20 });
  expect(await within(5000, Promise.resolve(meter.loadTotal(acme, atMs)))).toBe(false);
});

test('a late total resolves the waits still open and is cached for later ones', async () => {
  const asked: UsageWorkerRequest[] = [];
  const meter = meterAlone({ post: (request) => asked.push(request), totalTimeoutMs: 100 });
  const total = () =>
    meter.onEvent({ kind: 'totals', settled: [], totals: [[{ subject: 'acme', period }, 20]] });
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
  const meter = meterAlone();
  meter.onEvent({ kind: 'totals', settled: [], totals: [[{ subject: 'acme', period }, 20]] });
  expect(meter.poolTokens('acme', period)).toBe(0);
});

test('rows of requests that complete close together form one group, and the worker reads it soon', async () => {
  const asked: UsageWorkerRequest[] = [];
  const meter = meterAlone({ post: (request) => asked.push(request) });
  for (const requestId of ['r-0', 'r-1', 'r-2']) meter.record(completed({ requestId }));
  expect(asked).toEqual([]);
  await vi.waitFor(() => expect(asked).toHaveLength(1), { interval: 1 });
  expect(asked).toEqual([{ kind: 'written', position: 3, limits: expect.any(Array) }]);
  expect(meter.unshippedRows).toBe(3);
});

test('rows that fill a record are sent at once', async () => {
  const asked: UsageWorkerRequest[] = [];
  const writer = writerFor();
  const meter = meterAlone({ writer, post: (request) => asked.push(request) });
  for (let count = 0; count < 500; count++) meter.record(completed());
  await until(() => writer.keptRows === 500);
  expect(asked).toMatchObject([{ kind: 'written', position: 500 }]);
});

test('rows are kept in order while the log cannot be written', async () => {
  const asked: UsageWorkerRequest[] = [];
  writeFileSync(join(folder, 'usage'), 'no folder');
  const errors: string[] = [];
  const writer = writerFor(undefined, ({ message }) => errors.push(message));
  const meter = meterAlone({ writer, post: (request) => asked.push(request) });
  meter.record(completed());
  await until(() => errors.length === 1);
  meter.record(completed());
  expect([asked, writer.keptRows, writer.unkeptRows]).toEqual([[], 0, 2]);
  rmSync(join(folder, 'usage'));
  await until(() => writer.keptRows === 2, 5_000);
  await meter.sendRows();
  expect([asked, writer.unkeptRows, errors]).toMatchObject([
    [{ kind: 'written', position: 2 }],
    0,
    [expect.stringMatching(/EEXIST|ENOTDIR/)],
  ]);
});

test('the meter is full if the worker says so or rows wait for three seconds, or if too many rows wait', async () => {
  let nowMs = 0;
  const meter = meterAlone({ monotonicMs: () => nowMs });
  const state = (durable: number, isFull = false) =>
    meter.onEvent({ kind: 'state', taken: durable, unshipped: durable, isFull, ...noRecords });
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
  meter.record(completed());
  expect(meter.isFull).toBe(false);
  nowMs += 3_001;
  expect(meter.isFull).toBe(false);
  nowMs += 101;
  expect(meter.isFull).toBe(true);
  await meter.sendRows();
  state(1);
  expect(meter.isFull).toBe(false);
  for (let count = 0; count < 5_000; count++) meter.record(completed());
  expect(meter.isFull).toBe(true);
  await meter.sendRows();
  state(5_001);
  expect([meter.isFull, meter.unshippedRows]).toEqual([false, 5_001]);
});

test('requests wait while the log is behind, all on one promise, and pass once it catches up', async () => {
  let nowMs = 0;
  const writer = writerFor();
  const meter = meterAlone({ writer, monotonicMs: () => nowMs });
  expect(meter.awaitMeterCapacity()).toBe(true);
  for (let count = 0; count < 999; count++) meter.record(completed());
  expect(meter.awaitMeterCapacity()).toBe(true);
  meter.record(completed());
  const byRows = meter.awaitMeterCapacity();
  expect(byRows).toBeInstanceOf(Promise);
  expect(meter.awaitMeterCapacity()).toBe(byRows);
  await byRows;
  expect(writer.keptRows).toBe(1_000);
  expect(meter.awaitMeterCapacity()).toBe(true);
  meter.record(completed());
  nowMs = 351;
  const byTime = meter.awaitMeterCapacity();
  expect(byTime).toBeInstanceOf(Promise);
  await byTime;
  expect([writer.keptRows, meter.awaitMeterCapacity()]).toEqual([1_001, true]);
});

test('requests wait while the database is behind, even if the log has all rows', async () => {
  let nowMs = 0;
  const writer = writerFor();
  const meter = meterAlone({ writer, monotonicMs: () => nowMs });
  const state = (durable: number, isFull = false) =>
    meter.onEvent({ kind: 'state', taken: durable, unshipped: durable, isFull, ...noRecords });
  const record = async (rows: number): Promise<void> => {
    for (let count = 0; count < rows; count++) meter.record(completed());
    await meter.sendRows();
  };
  await record(3_999);
  expect(meter.awaitMeterCapacity()).toBe(true);
  await record(1);
  const byRows = meter.awaitMeterCapacity();
  expect(byRows).toBeInstanceOf(Promise);
  state(1);
  await byRows;
  expect(meter.awaitMeterCapacity()).toBe(true);
  nowMs = 2_001;
  const byTime = meter.awaitMeterCapacity();
  expect(byTime).toBeInstanceOf(Promise);
  state(4_000);
  await byTime;
  expect(meter.awaitMeterCapacity()).toBe(true);
  state(4_000, true);
  const byDisk = meter.awaitMeterCapacity();
  expect(byDisk).toBeInstanceOf(Promise);
  state(4_000);
  await byDisk;
});

test('waiting for a worker that never catches up ends, and then the meter is full', async () => {
  vi.useFakeTimers();
  try {
    const meter = meterAlone();
    meter.onEvent({ kind: 'state', taken: 0, unshipped: 0, isFull: true, ...noRecords });
    const wait = meter.awaitMeterCapacity();
    vi.advanceTimersByTime(3_200);
    await wait;
    expect(meter.isFull).toBe(true);
    expect(meter.awaitMeterCapacity()).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test('waiting for a database that accepts nothing ends with a refusal, even with no other requests', async () => {
  vi.useFakeTimers();
  try {
    const meter = meterAlone();
    meter.record(completed());
    vi.advanceTimersByTime(2_001);
    const wait = meter.awaitMeterCapacity();
    expect(wait).toBeInstanceOf(Promise);
    vi.advanceTimersByTime(3_200);
    await wait;
    expect(meter.isFull).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test('a disk that keeps accepting rows is not late, however long the rows wait in total', async () => {
  let nowMs = 0;
  const meter = meterAlone({ monotonicMs: () => nowMs });
  for (let count = 0; count < 5; count++) meter.record(completed());
  await meter.sendRows();
  for (let durable = 1; durable < 5; durable++) {
    nowMs += 600;
    meter.onEvent({ kind: 'state', taken: durable, unshipped: durable, isFull: false, ...noRecords });
    nowMs += 150;
    expect(meter.isFull).toBe(false);
    nowMs += 150;
    expect(meter.isFull).toBe(false);
  }
});

test('after an event-loop stall the meter reads the worker state before it reports that it is full', async () => {
  let nowMs = 0;
  const meter = meterAlone({ monotonicMs: () => nowMs });
  for (let stall = 1; stall <= 3; stall++) {
    meter.record(completed());
    nowMs += 5_000;
    // The worker's message arrives during the stall, but a request of the stall ends before the message is read.
    expect(meter.isFull).toBe(false);
    await meter.sendRows();
    meter.onEvent({ kind: 'state', taken: stall, unshipped: stall, isFull: false, ...noRecords });
    nowMs += 200;
    expect(meter.isFull).toBe(false);
  }
});

type Step = 'record' | 'flush' | 'others' | 'onEvent';

test('Limits 4: however late the worker’s messages arrive, a request counts once from its completion on', async () => {
  const step = fc.constantFrom<Step>('record', 'record', 'flush', 'others', 'onEvent');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const outbox = openOutbox({ path: join(folder, 'late', 'outbox.db') });
      const others = new CounterState();
      const events: UsageWorkerEvent[] = [];
      const worker: UsageWorker = new UsageWorker({
        ...{ outbox, counts, onLimits: () => undefined, live: () => 1 },
        others: (key) => others.sum(key),
        post: (event) => events.push(event),
      });
      worker.open();
      const writer = writerFor(outbox.logStart());
      const meter = meterAlone({ writer, post: (request) => send(worker, request) });
      void meter.loadTotal(acme, atMs);
      const onEvent = (): void => {
        const event = events.shift();
        if (event?.kind === 'state' || event?.kind === 'totals') meter.onEvent(event);
      };
      while (events.length > 0) onEvent();
      let expected = meter.poolTokens('acme', period);
      const steppers: Record<Step, () => void | Promise<void>> = {
        record: () => {
          meter.record(completed());
          expected += 7;
        },
        flush: () => meter.sendRows(),
        others: () => worker.onChanged([`acme ${period}`]),
        onEvent,
      };
      for (const each of steps) {
        await steppers[each]();
        expect(meter.poolTokens('acme', period)).toBe(expected);
      }
      await meter.sendRows();
      while (events.length > 0) onEvent();
      expect(meter.poolTokens('acme', period)).toBe(expected);
      outbox.close();
      await writer.close();
      rmSync(join(folder, 'late'), { recursive: true });
    }),
    { numRuns: runs({ fast: 10, full: 30 }) },
  );
});
