/** Tests which requests wait for room in a limit, and which are released or refused. The log has no delays. */
import { expect, test } from 'vitest';
import type { Claimant } from '../../data-plane/limits/claimant.ts';
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { ClaimLog } from '../../test/support/claim-log.ts';
import { readGauges } from '../../test/support/read-gauges.ts';
import type { Limit } from './claims-rows.ts';

const minute: Limit = { subject: 'acme', window: 60_000, limit: 10 };
const inFlight: Limit = { subject: 'acme', window: inFlightWindow, limit: 10 };

/** Admits requests with this total weight, and lets time pass until all processes know of them. */
function hold(log: ClaimLog, claimant: Claimant, limit: Limit, weight: number): void {
  for (let n = 0; n < weight; n++) claimant.add(limit, 1, log.nowMs);
  log.pass(2000);
}

/** Makes `count` requests wait. Returns a list to which each outcome is added once the request is released or refused. */
function wait(log: ClaimLog, claimant: Claimant, limit: Limit, count: number): boolean[] {
  const ends: boolean[] = [];
  for (let n = 0; n < count; n++)
    claimant.wait(limit, 1, log.nowMs + 10_000, log.nowMs, (again) => ends.push(again));
  return ends;
}

test('no more waiting requests are released than there is room for', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, inFlight, 8);
  const ends = wait(log, other, inFlight, 4);
  log.urgent(other);
  expect(ends).toEqual([true, true]);
});

test('a waiting request is refused once the others have used the remaining room', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, minute, 8);
  const ends = wait(log, other, minute, 2);
  for (let n = 0; n < 2; n++) one.add(minute, 1, log.nowMs);
  log.append(one.records(log.nowMs, log.nowMs));
  expect(ends).toEqual([false, false]);
});

test('a request waits if another gateway’s earlier requests may have ended by now', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  for (let n = 0; n < 10; n++) one.add(inFlight, 1, log.nowMs);
  while (other.fold.findClaim(one.process, inFlight) < 10) log.pass(200);
  const wait = () => other.wait(inFlight, 1, log.nowMs + 500, log.nowMs, () => undefined);
  expect(wait()).toBeUndefined();
  log.pass(1200);
  expect(wait()).toBeDefined();
});

test('a gateway that was paused reads the log before it refuses, and without the log it does not wait', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, inFlight, 5);
  log.pass(8000);
  log.set(one, 'suspended');
  log.pass(3000);
  expect(one.isCutOff(log.nowMs)).toBe(true);
  expect(one.admits(inFlight, 1, log.nowMs), 'its share is used').toBe(false);
  const ends = wait(log, one, inFlight, 1);
  log.set(one, 'live');
  log.pass(200);
  expect(ends).toEqual([true]);
  log.set(one, 'cut off');
  log.pass(3000);
  expect(one.wait(inFlight, 1, log.nowMs + 500, log.nowMs, () => undefined)).toBeUndefined();
});

/** Makes a request wait. Returns a list to which the time is added once the request is decided. */
function waitFor(log: ClaimLog, claimant: Claimant, limit: Limit, untilMs: number): number[] {
  const endsMs: number[] = [];
  claimant.wait(limit, 1, untilMs, log.nowMs, () => endsMs.push(log.nowMs));
  return endsMs;
}

test('a request is decided when its time is up, if the log answered without giving it room', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, inFlight, 10);
  // A suspended process publishes nothing, so others still count its requests in flight, although these may have ended.
  log.set(one, 'suspended');
  log.pass(1200);
  const sinceMs = log.nowMs;
  const endsMs = waitFor(log, other, inFlight, sinceMs + 2000);
  log.pass(4000);
  expect(endsMs).toEqual([sinceMs + 2000]);
});

test('without an answer from the log in time, a request waits for it or until the share decides', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant];
  hold(log, one, minute, 5);
  const firstMs = log.nowMs;
  log.set(one, 'behind');
  const first = waitFor(log, one, minute, firstMs + 2000);
  log.pass(1200);
  log.set(one, 'live');
  // The same request now waits for room under a second limit, while its process is behind again.
  log.set(one, 'behind');
  const secondMs = log.nowMs;
  const second = waitFor(log, one, inFlight, firstMs + 2000);
  log.pass(5000);
  expect(first).toEqual([secondMs]);
  expect(second).toEqual([secondMs + 2000]);
});

test('records read together release their room once: released requests are decided before others', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, inFlight, 8);
  log.set(other, 'behind');
  const ends = wait(log, other, inFlight, 4);
  log.pass(1000);
  for (const [at, record] of log.records.entries()) other.onRecord(readGauges(record), at + 1, log.nowMs);
  expect([ends, other.mayRelease]).toEqual([[], true]);
  other.settle(log.nowMs);
  expect([ends, other.mayRelease]).toEqual([[true, true], false]);
});

test('at most 5,000 requests wait for one limit', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  const wide = { ...inFlight, limit: 10_000 };
  const wait = () => one.wait(wide, 1, log.nowMs + 500, log.nowMs, () => undefined);
  const waiters = Array.from({ length: 5000 }, wait);
  expect(waiters).not.toContain(undefined);
  expect(wait()).toBeUndefined();
  for (const waiter of waiters.slice(0, 1)) if (waiter !== undefined) one.cancel(waiter);
  expect(wait()).toBeDefined();
  expect(wait()).toBeUndefined();
});
