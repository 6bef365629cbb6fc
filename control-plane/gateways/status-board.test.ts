import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { StatusReport } from '../../schemas/records/status.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import {
  boardOn,
  gatewayToken,
  log1,
  publish,
  reportOf,
  takeMonotonicClock,
  testMac,
  topic,
} from '../../test/support/status-reports.ts';
import { StatusBoard } from './status-board.ts';

let log: ControlLog;
let board: StatusBoard;
beforeEach(async () => {
  log = topic();
  board = await boardOn(log);
});
afterEach(async () => {
  await board.stop();
  await log.close();
  vi.restoreAllMocks();
});

const send = async (...records: object[]): Promise<void> => {
  for (const record of records) await publish(log, record);
  expect(await board.readToEnd(5000)).toBe(true);
};
const names = (): string[] => board.gateways().map(({ report }) => report.name);
const confirms = (position: number): boolean[] =>
  board.gateways().map((seen) => board.confirms(seen, position, log1));

const old = { v: 1, name: 'edge-1', kind: 'gateway', at: '', log: log1, applied: 99, digest: 'd' };
const versionOne = { ...old, foldVersion: 1, freshSeconds: 0, stalePolicy: 'serve' };
const bytes = (record: unknown): Buffer => Buffer.from(JSON.stringify(record));

test.each<[string, () => [Buffer, Buffer | null], string]>([
  ['without a MAC', () => [bytes(reportOf({ applied: 99 })), null], 'unsigned'],
  ['with an empty MAC', () => [bytes(reportOf()), Buffer.alloc(0)], 'unsigned'],
  ['with the MAC of another token', () => withMac(reportOf(), new StatusMac('another')), 'wrong_mac'],
  ['with the MAC of another record', () => [bytes(reportOf()), testMac.of(bytes(reportOf()))], 'wrong_mac'],
  ['from an earlier build', () => [bytes(versionOne), null], 'unsigned'],
  ['from an earlier build, with a MAC', () => withMac(versionOne), 'unreadable'],
  ['with a terminal escape in its name', () => withMac(reportOf({ name: '\u001b[2J' })), 'unreadable'],
  ['that is not a report', () => withMac([1, 2]), 'unreadable'],
  ['that is not JSON', () => [Buffer.from('{'), testMac.of(Buffer.from('{'))], 'unreadable'],
])('a record %s is ignored and counted', async (_what, make, cause) => {
  const [value, mac] = make();
  await log.append(value, mac);
  await send(reportOf({ name: 'edge-2' }));
  expect(names()).toEqual(['edge-2']);
  expect([...board.ignored.totals]).toEqual([[cause, 1]]);
});

function withMac(record: object, mac = testMac): [Buffer, Buffer] {
  return [bytes(record), mac.of(bytes(record))];
}

test('a record with the previous token’s MAC counts while that token is accepted', async () => {
  const both = await boardOn(log, new StatusMac('the-next-gateway-token', gatewayToken));
  await publish(log, reportOf({ name: 'before' }));
  await publish(log, reportOf({ name: 'after' }), new StatusMac('the-next-gateway-token'));
  await both.readToEnd(5000);
  expect(both.gateways().map(({ report }) => report.name)).toEqual(['after', 'before']);
  await both.stop();
});

test('an empty gateway token is refused as a MAC key', () => {
  expect(() => new StatusMac('')).toThrow(/empty/);
  expect(() => new StatusMac('a-token', '')).toThrow(/empty/);
});

test('only a newer report of the same incarnation counts; a repeated one neither confirms nor removes', async () => {
  const first = reportOf({ n: 1, applied: 20 });
  const second = { ...first, n: 2, applied: 5 };
  await send(first, second, first);
  expect(confirms(10)).toEqual([false]);
  const { incarnation } = first;
  await send({ ...first, n: 3, stopped: true });
  expect(names()).toEqual([]);
  await send({ ...first, incarnation, n: 2 });
  expect(names()).toEqual([]);
});

test.each<[string, Partial<StatusReport>, boolean]>([
  ['at the position', { applied: 10 }, true],
  ['beyond it', { applied: 99 }, true],
  ['before it', { applied: 9 }, false],
  ['beyond it, of another log', { applied: 99, log: 'log-0' }, false],
  ['beyond it, without a log', { applied: 99, log: null }, false],
  ['beyond it, but halted', { applied: 99, halted: 'an event it does not know' }, false],
  ['beyond it, but quarantined', { applied: 99, halted: 'its rows differ', diverged: true }, false],
])('whether a gateway %s confirms: %#', async (_what, report, confirmed) => {
  board.addOwnDigest(10, 'd');
  await send(reportOf(report));
  expect(confirms(10)).toEqual([confirmed]);
});

test('nothing is confirmed for a log that this replica does not know', async () => {
  await send(reportOf({ applied: 99, log: null }));
  expect(board.gateways().map((seen) => board.confirms(seen, 1, null))).toEqual([false]);
});

test('a silent gateway that fences confirms 60 s after its last proof, and one that serves never does', async () => {
  const clock = takeMonotonicClock();
  board.addOwnDigest(11, 'd');
  await send(reportOf({ name: 'a', stalePolicy: 'fence' }), reportOf({ name: 'b', stalePolicy: 'serve' }));
  clock.advanceSeconds(58);
  expect(await board.readToEnd(5000)).toBe(true);
  expect(confirms(11)).toEqual([false, false]);
  clock.advanceSeconds(4);
  expect(await board.readToEnd(5000)).toBe(true);
  expect(confirms(11)).toEqual([true, false]);
  clock.advanceSeconds(1e9);
  expect(await board.readToEnd(5000)).toBe(true);
  expect(confirms(11)).toEqual([true, false]);
});

test('silence counts only once the topic has been read to its end', async () => {
  const clock = takeMonotonicClock();
  board.addOwnDigest(11, 'd');
  await send(reportOf({ stalePolicy: 'fence' }));
  clock.advanceSeconds(3600);
  expect(confirms(11)).toEqual([false]);
  expect(await board.readToEnd(5000)).toBe(true);
  expect(confirms(11)).toEqual([true]);
});

test.each([
  ['that was about to be fenced', 50],
  ['that had no proof yet', null],
])('a gateway %s may have renewed its proof before the position was written', async (_what, freshSeconds) => {
  const clock = takeMonotonicClock();
  await send(reportOf({ stalePolicy: 'fence', freshSeconds }));
  clock.advanceSeconds(20);
  board.addOwnDigest(11, 'd');
  expect(await board.readToEnd(5000)).toBe(true);
  expect(confirms(11)).toEqual([false]);
  clock.advanceSeconds(51);
  expect(await board.readToEnd(5000)).toBe(true);
  expect(confirms(11)).toEqual([true]);
  expect(confirms(12)).toEqual([false]);
});

test('two processes with one name are two rows, but a later start on the same folder replaces the earlier', async () => {
  const folder = { id: randomUUID(), start: 4 };
  const first = reportOf({ folder });
  await send(first, reportOf({ folder: { id: randomUUID(), start: 1 } }));
  expect([...board.conflicts()]).toEqual([['edge-1', 2]]);
  const later = reportOf({ folder: { ...folder, start: 5 } });
  await send(later);
  expect([...board.conflicts()]).toEqual([['edge-1', 2]]);
  expect(board.rows.get(first.incarnation)).toBeUndefined();
  // If a process that seemed to have ended reports again, two processes are using copies of one folder.
  await send({ ...first, n: 2 });
  expect([...board.conflicts()]).toEqual([['edge-1', 3]]);
  await send({ ...later, n: 2 }, { ...first, n: 3 });
  expect([...board.conflicts()]).toEqual([['edge-1', 3]]);
});

test('a gateway at another log’s position and digest is neither in sync nor divergent', async () => {
  board.addOwnDigest(10, 'own');
  await send(reportOf({ log: 'log-0', digest: 'theirs' }));
  const head = { log: log1, seq: 10, foldVersion: 1 };
  expect(board.gateways().map((seen) => board.state(seen, head))).toEqual(['LAGGING']);
});

test('reports from before a replica’s start are shown as stale until the gateway reports again', async () => {
  const report = reportOf();
  await send(report);
  const later = await boardOn(log);
  const head = { log: log1, seq: 10, foldVersion: 1 };
  const states = () => later.gateways().map((seen) => later.state(seen, head));
  expect(states()).toEqual(['STALE']);
  await publish(log, { ...report, n: 2 });
  await later.readToEnd(5000);
  expect(states()).toEqual(['SYNCED']);
  await later.stop();
});

test('after a start, the traffic of gateways that have already stopped is passed on', async () => {
  const ended = reportOf({ n: 2, traffic: 'counted', stopped: true });
  await publish(log, { ...ended, n: 1, stopped: undefined, traffic: 'earlier' });
  await publish(log, ended);
  const traffic: unknown[] = [];
  const watching = new StatusBoard({
    ...{ log, mac: testMac, logger: { warn: () => undefined } },
    onTraffic: (counted) => traffic.push(counted),
  });
  watching.rows.upsert({ ...ended, n: 3 }, 'file');
  watching.start();
  expect(await watching.readToEnd(5000)).toBe(true);
  expect(traffic).toEqual(['earlier', 'counted']);
  await watching.stop();
});

test('traffic is passed on once, whatever its form, and no row keeps it', async () => {
  const traffic: unknown[] = [];
  const watching = new StatusBoard({
    ...{ log, mac: testMac, logger: { warn: () => undefined } },
    onTraffic: (counted, { name }, atMs) => traffic.push([counted, name, typeof atMs]),
  });
  watching.start();
  const incarnation = randomUUID();
  const first = reportOf({ incarnation, n: 3, traffic: { any: 'thing' } });
  await publish(log, first);
  await publish(log, reportOf({ incarnation, n: 4 }));
  await publish(log, first);
  await publish(log, reportOf({ incarnation, n: 5, traffic: 7, stopped: true }));
  await publish(log, reportOf({ incarnation, n: 5, traffic: 7, stopped: true }));
  await publish(log, reportOf({ name: 'edge-2', traffic: 8 }));
  expect(await watching.readToEnd(5000)).toBe(true);
  expect(traffic).toEqual([
    [{ any: 'thing' }, 'edge-1', 'number'],
    [7, 'edge-1', 'number'],
    [8, 'edge-2', 'number'],
  ]);
  expect(watching.gateways().map(({ report }) => ['traffic' in report, report.name])).toEqual([
    [false, 'edge-2'],
  ]);
  await watching.stop();
});
