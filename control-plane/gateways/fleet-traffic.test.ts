import { expect, test } from 'vitest';
import { hourMs } from '../../schemas/durations.ts';
import type { TrafficReport } from '../../schemas/records/traffic.ts';
import { FleetTraffic } from './fleet-traffic.ts';

const nowMs = 10 * hourMs;
const edge = { name: 'edge-1', incarnation: 'incarnation-1' };
const other = { name: 'edge-2', incarnation: 'incarnation-2' };

function report(fromMs: number, ...rows: TrafficReport['rows']): TrafficReport {
  return { v: 1, fromMs, toMs: fromMs + 10_000, inFlight: 0, rows };
}
const acme = (requests: number, more: object = {}) => ({
  organisation: 'acme',
  model: 'm',
  requests,
  ...more,
});
const requestsIn = (traffic: FleetTraffic, atMs = nowMs): number[] =>
  [...traffic.rows(atMs)].map(({ row }) => row.requests);

test('a report replaces only the reports that it contains', () => {
  const traffic = new FleetTraffic();
  traffic.add(report(0, acme(1)), edge, nowMs - 5000, nowMs);
  traffic.add(report(10_000, acme(2)), edge, nowMs - 4000, nowMs);
  traffic.add(report(10_000, acme(4)), other, nowMs - 3000, nowMs);
  traffic.add(report(10_000, acme(8)), edge, nowMs - 2000, nowMs);
  expect(requestsIn(traffic)).toEqual([1, 4, 8]);
});

test('reports are kept for an hour by the log’s time', () => {
  const traffic = new FleetTraffic();
  traffic.add(report(0, acme(1)), edge, nowMs - hourMs, nowMs);
  traffic.add(report(0, acme(2)), edge, nowMs - hourMs + 1, nowMs);
  traffic.add(report(10_000, acme(4)), edge, nowMs, nowMs);
  expect([requestsIn(traffic), requestsIn(traffic, nowMs + 1)]).toEqual([[2, 4], [4]]);
  expect(traffic.sinceMs(nowMs)).toBe(nowMs - hourMs);
});

test('a report dated by a wrong clock counts from when it was read', () => {
  const traffic = new FleetTraffic(undefined, () => nowMs);
  traffic.add(report(0, acme(1)), edge, nowMs - 1000);
  traffic.add(report(0, acme(2)), other, nowMs - 48 * hourMs);
  expect(requestsIn(traffic)).toEqual([1, 2]);
});

test('a time in the future counts as now', () => {
  const traffic = new FleetTraffic();
  traffic.add(report(0, acme(1)), edge, nowMs + 48 * hourMs, nowMs);
  expect([requestsIn(traffic), requestsIn(traffic, nowMs + hourMs)]).toEqual([[1], []]);
});

test('unreadable reports are skipped', () => {
  const traffic = new FleetTraffic();
  const noTime = { status: 400, requests: 1, lastAtMs: 9e15, lastRequest: 'req' };
  const refused = report(0, acme(1, { refused: { NoTime: noTime } }));
  for (const junk of [undefined, null, 7, {}, { ...report(0), v: 2 }, report(0, acme(-1)), refused])
    traffic.add(junk, edge, nowMs, nowMs);
  expect(traffic.reports(nowMs)).toEqual([]);
});

test('memory is bounded: the oldest reports are dropped, and the start of complete data is known', () => {
  const traffic = new FleetTraffic(20);
  for (let at = 0; at < 30; at++)
    traffic.add(report(at * 10_000, acme(at, {})), edge, nowMs - 30_000 + at * 1000, nowMs);
  expect(requestsIn(traffic)).toEqual([20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
  expect(traffic.sinceMs(nowMs)).toBe(nowMs - 11_000);
});

test('a refusal takes as much room as a row', () => {
  const traffic = new FleetTraffic(20);
  const refusal = { status: 400, requests: 1, lastAtMs: nowMs, lastRequest: 'req' };
  const types = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`Type${n}`, refusal]));
  for (let at = 0; at < 6; at++)
    traffic.add(report(at * 10_000, acme(at, { refused: types })), edge, nowMs, nowMs);
  expect(requestsIn(traffic)).toEqual([4, 5]);
  traffic.add({ ...report(60_000), rest: { requests: 6, refused: types } }, edge, nowMs, nowMs);
  expect(requestsIn(traffic)).toEqual([5, 6]);
});

test('rows can be filtered by each name, and each node’s answers are counted', () => {
  const traffic = new FleetTraffic();
  const elm = { organisation: 'elm', model: 'm', stack: 'stk-a', requests: 5 };
  const nodes = [{ node: 'pool-1', requests: 7 }];
  traffic.add({ ...report(0, acme(2), elm), nodes }, edge, nowMs - 90_000, nowMs);
  traffic.add({ ...report(0, acme(3)), rest: { requests: 9 } }, other, nowMs - 70_000, nowMs);
  const found = (where: object) => [...traffic.rows(nowMs, where)].map(({ row }) => row.requests);
  expect(found({})).toEqual([2, 5, 3, 9]);
  expect(found({ organisation: 'acme', stack: undefined })).toEqual([2, 3]);
  expect(found({ gateway: 'edge-2' })).toEqual([3, 9]);
  expect(found({ stack: 'stk-a' })).toEqual([5]);
  expect(found({ gateway: 'edge-2', organisation: 'elm' })).toEqual([]);
  expect([...traffic.nodes(nowMs)].map(({ row }) => row)).toEqual(nodes);
});
