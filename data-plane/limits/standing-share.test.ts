/** Tests standing shares: who holds one, when it may be used, and which part still counts after its process has ended. */
import { expect, test } from 'vitest';
import { type GaugeRecord, inFlightWindow } from '../../schemas/records/gauges.ts';
import { ClaimsFold } from '../../shared/limits/claims-fold.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import { ClaimLog } from '../../test/support/claim-log.ts';
import type { Claimant } from './claimant.ts';
import { OwnLimit } from './own-limit.ts';
import { StandingShare } from './standing-share.ts';

const startMs = Date.UTC(2026, 0, 1);
const minute: Limit = { subject: 'acme', window: startMs + 60_000, limit: 60 };
const inFlight: Limit = { subject: 'acme', window: inFlightWindow, limit: 60 };

const head = { name: 'gw', entries: [], ended: [], silent: [] };
const recordOf = (process: string, n: number, at: number, from: number): GaugeRecord => ({
  ...{ ...head, process, n, at, from },
});

test('a starting gateway has no share of the concurrency until all live gateways have read its first record', () => {
  const log = new ClaimLog();
  log.openAll(2);
  const late = log.open();
  log.pass(3000);
  expect(log.take(late, inFlight, 60)).toBe(0);
  log.pass(1000);
  expect(log.take(late, inFlight, 60)).toBe(10);
});

test('a membership counts if its record came back 3 s before it begins, with clocks up to 1 s apart', () => {
  for (const [readMs, share] of [
    [2000, 30],
    [2001, 0],
  ] as const) {
    const fold = new ClaimsFold();
    const standing = new StandingShare(fold, 'one');
    standing.announce(1, startMs);
    const { from } = standing;
    expect(from).toBe(startMs + 5000);
    fold.apply(recordOf('one', 1, startMs, from), 1, 0, startMs);
    standing.readBack(1, startMs + readMs);
    expect(standing.level(minute, undefined, new OwnLimit(minute))).toBe(share);
    standing.announce(2, startMs + 2500);
    expect(standing.from).toBe(share > 0 ? from : startMs + 7500);
  }
});

test('shares are fractions: two of three gateways leave 6 of 10 to the third, not 8', () => {
  const fold = new ClaimsFold();
  for (const [index, process] of ['one', 'two', 'three'].entries())
    fold.apply(recordOf(process, 1, startMs, startMs + 5000), index, 0, startMs);
  const entry = { subject: 'acme', window: minute.window, limit: 10, used: 0, claim: 10 };
  fold.apply({ ...recordOf('one', 2, startMs, startMs + 5000), entries: [entry] }, 3, 0, startMs);
  expect(fold.findClaim('one', minute)).toBe(6);
});

test('use of the share without a claim counts under the gateway’s id at that time, not under its next', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant];
  const late: Limit = { ...minute, window: 60_000 };
  const before = one.process;
  log.set(one, 'cut off');
  expect(log.take(one, late, 10)).toBe(10);
  log.pass(8200);
  expect(one.process).not.toBe(before);
  expect(one.used(late)).toBe(0);
  log.set(one, 'live');
  log.pass(1200);
  expect(one.fold.row(late)?.cells.get(before)).toMatchObject({ used: 10, claim: 10 });
});

const hourMs = 3_600_000;
test.each([-24 * hourMs, -hourMs, hourMs, 24 * hourMs])(
  'a gateway whose clock is off by %i ms joins no running minute, and joins once its clock is right',
  (offMs) => {
    const fold = new ClaimsFold();
    const standing = new StandingShare(fold, 'one');
    let n = 0;
    const publish = (atMs: number, off: number): void => {
      standing.announce(++n, startMs + atMs + off);
      fold.apply(recordOf('one', n, startMs + atMs + off, standing.from), n, atMs, startMs + atMs);
      standing.readBack(n, startMs + atMs + off);
    };
    const later: Limit = { ...minute, window: minute.window + 2 * hourMs };
    publish(0, offMs);
    expect([fold.has('one', startMs), fold.has('one', later.window)]).toEqual([false, false]);
    // The log has corrected its clock by the time of this record.
    publish(1000, 0);
    expect([fold.has('one', startMs), fold.has('one', later.window)]).toEqual([false, true]);
    expect(standing.level(later, undefined, new OwnLimit(later))).toBe(30);
  },
);

test('requests do not wait for a dead gateway’s possible use of its share, but do wait for its other use', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  const now: Limit = { ...minute, window: 10_000 };
  log.pass(8000);
  log.kill(other);
  const again = log.open(other.process);
  log.pass(6000);
  expect(one.fold.hasEnded(other.process)).toBe(true);
  expect(one.isLeft(now, 45, log.nowMs)).toBe(true);
  expect(one.isLeft(now, 46, log.nowMs)).toBe(false);
  expect(one.wait(now, 46, log.nowMs + 1, log.nowMs, () => undefined)).toBeUndefined();
  expect(one.isLeft({ ...now, window: 600_000 }, 60, log.nowMs)).toBe(true);
  expect(again.isLeft(now, 46, log.nowMs)).toBe(false);
});
