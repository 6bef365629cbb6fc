/** Tests what a gateway admits, claims and publishes, rule by rule, on a log without delays. */
import { expect, test } from 'vitest';
import { decodeGauges, encodeGauges, gaugeEntriesMax, inFlightWindow } from '../../schemas/records/gauges.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import { ClaimLog } from '../../test/support/claim-log.ts';
import type { Claimant } from './claimant.ts';

const minute: Limit = { subject: 'acme', window: 60_000, limit: 60 };
const inFlight: Limit = { subject: 'acme', window: inFlightWindow, limit: 10 };

/** Admits `weight` requests of weight 1, then lets enough time pass for the log to know of them. */
function hold(log: ClaimLog, claimant: Claimant, weight: number): void {
  for (let n = 0; n < weight; n++) claimant.add(inFlight, 1, log.nowMs);
  log.pass(1200);
}

/** Waiting requests of one gateway. The log's answer only releases them; `admit` then decides them again. */
class Queue {
  readonly #log: ClaimLog;
  readonly #claimant: Claimant;
  #released: Limit[] = [];

  constructor(log: ClaimLog, claimant: Claimant) {
    this.#log = log;
    this.#claimant = claimant;
  }

  wait(limit: Limit): void {
    const { nowMs } = this.#log;
    this.#claimant.wait(limit, 1, nowMs + 10_000, nowMs, (again) => {
      if (again) this.#released.push(limit);
    });
  }

  /** Publishes urgent entries between two ticks and then decides the released requests again. */
  urgent(): void {
    this.#log.urgent(this.#claimant);
    this.admit();
  }

  admit(): void {
    const { nowMs } = this.#log;
    for (const limit of this.#released.splice(0)) {
      if (this.#claimant.admits(limit, 1, nowMs)) this.#claimant.add(limit, 1, nowMs);
      else this.wait(limit);
    }
  }
}

const usedIn = (reader: Claimant, limit: Limit): number =>
  [...(reader.fold.row(limit)?.cells.values() ?? [])].reduce((sum, { used }) => sum + used, 0);

test.each(['on its data folder', 'without its data folder'])(
  'a lone gateway that stops leaves its room to the gateway that starts %s',
  (how) => {
    const log = new ClaimLog();
    const [first] = log.openAll(1) as [Claimant];
    expect(first.isAlone).toBe(true);
    expect(log.take(first, minute, 10)).toBe(10);
    log.pass(1200);
    log.leave(first);
    const second = log.open(how === 'on its data folder' ? first.process : undefined);
    expect(second.fold.alone).toBeUndefined();
    log.pass(1000);
    expect(second.isAlone).toBe(true);
    // Requests that were admitted earlier in this minute still count.
    expect(log.take(second, minute, 60)).toBe(50);
  },
);

test('a gateway that stops frees the part of its claim on a minute that it did not use', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  expect(log.take(one, minute, 1)).toBe(1);
  log.pass(200);
  expect(one.fold.findClaim(one.process, minute)).toBeGreaterThan(1);
  log.leave(one);
  expect(other.fold.findClaim(one.process, minute)).toBe(1);
});

test('one first request per gateway may run before its claim if the limit leaves one for every gateway', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  const tight = { ...minute, limit: 3 };
  expect(log.take(one, tight, 5)).toBe(1);
  expect(log.take(other, tight, 5)).toBe(1);
  expect(log.take(one, { ...minute, subject: 'narrow', limit: 1 }, 1)).toBe(0);
});

test('no first request runs before its claim while another gateway holds all the room', () => {
  const log = new ClaimLog();
  const [alone] = log.openAll(1) as [Claimant];
  log.set(alone, 'suspended');
  const other = log.open();
  log.pass(600);
  expect(other.isCutOff(log.nowMs)).toBe(false);
  expect(log.take(other, minute, 1)).toBe(0);
  expect(log.take(other, { ...minute, limit: 3 }, 1)).toBe(0);
});

test('when a limit is lowered below current use, ending requests are not replaced until use fits again', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  for (const each of [one, other]) hold(log, each, 5);
  log.pass(8000);
  expect(one.fold.row(inFlight)?.claimed).toBe(10);
  const narrow = { ...inFlight, limit: 6 };
  one.remove(inFlight, 1);
  expect(one.admits(inFlight, 1, log.nowMs)).toBe(true);
  expect(one.admits(narrow, 1, log.nowMs)).toBe(false);
  one.remove(narrow, 4);
  other.remove(narrow, 2);
  for (const each of [one, other]) each.add(narrow, 0, log.nowMs);
  log.pass(1400);
  expect(one.admits(narrow, 1, log.nowMs)).toBe(true);
});

test('a gateway that is cut off admits up to its granted concurrency for 8 s, and then only its share', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, 8);
  log.pass(2000);
  log.set(one, 'cut off');
  const before = one.process;
  log.pass(5000);
  expect(one.isCutOff(log.nowMs)).toBe(true);
  expect(one.room(inFlight, log.nowMs)).toBeGreaterThanOrEqual(8);
  log.nowMs += 3200;
  expect(one.room(inFlight, log.nowMs)).toBe(5);
  // The process must take another id before other processes declare that the present one has ended.
  log.pass(200);
  expect(one.process).not.toBe(before);
});

test('a suspended gateway takes another id once it reads that the others declared its id ended', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  const before = one.process;
  log.set(one, 'suspended');
  log.pass(13_000);
  expect(other.fold.hasEnded(before)).toBe(true);
  log.set(one, 'live');
  expect(one.process).not.toBe(before);
});

test('under a new id, a gateway publishes only the use in its minute that the log did not yet know', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(1) as [Claimant];
  // This minute began before the process was a member, so the process has no share in it.
  const running = { ...minute, window: 4000 };
  log.take(one, running, 5);
  log.pass(1200);
  expect(usedIn(one, running)).toBe(5);
  log.set(one, 'cut off');
  log.take(one, running, 3);
  log.pass(9000);
  expect(one.used(running)).toBe(3);
  log.set(one, 'live');
  log.pass(1000);
  expect(usedIn(one, running)).toBe(8);
});

test('no gateway is declared silent while the log itself is silent', () => {
  const log = new ClaimLog();
  const [alone] = log.openAll(1) as [Claimant];
  const other = log.open();
  for (const each of [alone, other]) log.set(each, 'cut off');
  log.pass(4000);
  log.set(other, 'live');
  log.pass(200);
  expect(log.records.filter(({ silent, ended }) => silent.length + ended.length > 0)).toEqual([]);
  expect(other.fold.alone).toBe(alone.process);
});

test('a gateway’s records after a long silence of the log do not end gateways that it could not read', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  const before = other.process;
  for (const each of [one, other]) log.set(each, 'cut off');
  // This outage lasts longer than other processes keep counting a silent process's requests in flight.
  log.pass(12_000);
  const sent = one.records(log.nowMs + 1000, log.nowMs + 1000);
  expect(sent.length).toBeGreaterThan(0);
  expect(sent.flatMap(({ ended }) => ended.map(([process]) => process))).not.toContain(before);
});

test('a killed gateway loses its room within seconds, and its requests in flight within about ten', () => {
  const log = new ClaimLog();
  const [alone] = log.openAll(1) as [Claimant];
  log.take(alone, inFlight, 4);
  log.take(alone, minute, 7);
  log.pass(1200);
  log.kill(alone);
  const other = log.open();
  log.pass(5000);
  expect(other.fold.alone).toBeUndefined();
  expect(other.fold.findClaim(alone.process, inFlight)).toBe(4);
  log.pass(8000);
  expect(other.fold.findClaim(alone.process, inFlight)).toBe(0);
  expect(other.fold.findClaim(alone.process, minute)).toBe(7);
  expect(other.isAlone).toBe(true);
});

test('a lone gateway publishes all its use as soon as another joins, and is then no longer alone', () => {
  const log = new ClaimLog();
  const [alone] = log.openAll(1) as [Claimant];
  log.take(alone, minute, 20);
  // The record has been sent but not read back yet, and more requests are admitted in the meantime.
  expect(alone.records(log.nowMs, log.nowMs)).toHaveLength(1);
  log.take(alone, minute, 5);
  const other = log.open();
  log.append(other.records(log.nowMs, log.nowMs));
  const [record] = alone.isUrgent ? alone.records(log.nowMs, log.nowMs, true) : [];
  expect(record).toMatchObject({ entries: [{ subject: 'acme', window: 60_000, used: 25 }] });
  expect(record).not.toHaveProperty('alone');
  // The process must not count as alone from the moment the record is sent, even before the record is read back.
  expect(alone.isAlone).toBe(false);
});

test('use that was not read back is published again', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  log.take(one, minute, 1);
  log.set(one, 'cut off');
  log.pass(200);
  log.set(one, 'live');
  log.pass(1200);
  expect(usedIn(one, minute)).toBe(1);
});

test('a gateway gives up unused room at once when another lacks it', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, 6);
  log.pass(600);
  for (let n = 0; n < 4; n++) one.remove(inFlight, 1);
  const done: boolean[] = [];
  for (let n = 0; n < 8; n++)
    other.wait(inFlight, 1, log.nowMs + 500, log.nowMs, (again) => done.push(again));
  log.urgent(other);
  expect(one.isUrgent).toBe(true);
  log.urgent(one);
  expect(one.fold.findClaim(one.process, inFlight)).toBe(one.used(inFlight));
  log.urgent(other);
  expect(done.length).toBeGreaterThan(0);
  expect(done.every(Boolean)).toBe(true);
});

test('a gateway repeats its claims every 30 s, for readers that start later', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  log.take(one, inFlight, 1);
  // Waits until the process has given up what it had claimed ahead.
  log.pass(8000);
  const before = log.records.length;
  log.pass(31_000);
  expect(log.records.slice(before).filter(({ entries }) => entries.length > 0)).toHaveLength(1);
});

test('when claims exceed a lowered limit, waiting requests do not keep free room from being used', () => {
  const log = new ClaimLog();
  const all = log.openAll(2);
  for (const each of all) hold(log, each, 5);
  log.pass(2000);
  // The limit is lowered while both processes use everything they hold. Then their requests end, and as many wait on both.
  const narrow = { ...inFlight, limit: 6 };
  for (const each of all) each.remove(inFlight, 5);
  const queues = all.map((each) => new Queue(log, each));
  for (const queue of queues) for (let n = 0; n < 5; n++) queue.wait(narrow);
  for (let n = 0; n < 20; n++, log.nowMs += 200)
    for (const each of all) {
      log.append(each.records(log.nowMs, log.nowMs));
      for (const queue of queues) queue.admit();
    }
  expect(all.reduce((sum, each) => sum + each.used(narrow), 0)).toBe(6);
});

test('a gateway that received less than it requested asks again once another gives up room', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, 10);
  log.pass(2000);
  const queue = new Queue(log, other);
  for (let n = 0; n < 4; n++) queue.wait(inFlight);
  queue.urgent();
  expect(other.used(inFlight)).toBe(0);
  one.remove(inFlight, 4);
  log.urgent(one);
  // Requests that fit into the standing share do not wait for the claim on the rest.
  queue.urgent();
  queue.urgent();
  expect(other.used(inFlight)).toBe(4);
});

test('a gateway claims at most a quarter of the unused room, so that others find room at once', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  log.take(one, minute, 1);
  log.pass(600);
  for (let n = 0; n < 7; n++) {
    log.take(one, minute, 60);
    log.pass(600);
  }
  const used = one.used(minute);
  expect(used).toBeGreaterThan(10);
  expect(one.fold.findClaim(one.process, minute)).toBeGreaterThan(used);
  expect(one.fold.findClaim(one.process, minute)).toBeLessThanOrEqual(used + (60 - used) / 4);
});

test('when another gateway lacks room, one record gives up everything claimed ahead', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  for (let n = 0; n < 7; n++) {
    log.take(one, minute, 60);
    log.pass(600);
  }
  const used = one.used(minute);
  expect(one.fold.findClaim(one.process, minute)).toBeGreaterThan(used);
  const queue = new Queue(log, other);
  for (let n = 0; n < 60 - used; n++) queue.wait(minute);
  queue.urgent();
  expect(other.used(minute)).toBeLessThan(60 - used);
  expect(log.urgent(one)).toHaveLength(1);
  expect(one.fold.findClaim(one.process, minute)).toBe(used);
  queue.urgent();
  expect(other.used(minute)).toBe(60 - used);
});

test('a lone gateway publishes its admissions at every tick, so a kill loses at most one tick’s', () => {
  const log = new ClaimLog();
  const [alone] = log.openAll(1) as [Claimant];
  for (let n = 1; n <= 4; n++) {
    log.take(alone, minute, 5);
    log.pass(200);
    expect(usedIn(alone, minute)).toBe(5 * n);
  }
});

test('a lone gateway keeps all the room for as long as it may admit without the log', () => {
  const log = new ClaimLog();
  const [alone] = log.openAll(1) as [Claimant];
  log.take(alone, minute, 1);
  log.pass(200);
  log.set(alone, 'cut off');
  const other = log.open();
  log.pass(200);
  expect(other.isCutOff(log.nowMs)).toBe(false);
  while (!alone.isCutOff(log.nowMs)) {
    expect(log.take(other, minute, 1)).toBe(0);
    // Other requests keep waiting, so the process publishes all the time.
    const limit = { ...minute, subject: `organisation-${log.nowMs}` };
    other.wait(limit, 1, log.nowMs + 9000, log.nowMs, () => undefined);
    log.urgent(other);
    log.pass(200);
  }
  log.pass(3000);
  expect(log.take(other, minute, 1)).toBe(1);
});

test('new and reduced use is gathered into few records', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  const before = log.records.length;
  for (let n = 0; n < 25; n++) {
    expect(log.take(one, { ...minute, subject: `organisation-${n}` }, 1)).toBe(1);
    log.pass(200);
  }
  log.pass(1000);
  const records = log.records.slice(before).filter(({ process }) => process === one.process);
  expect(records.length).toBeLessThanOrEqual(16);
  for (let n = 0; n < 25; n++)
    expect(usedIn(other, { ...minute, subject: `organisation-${n}` }), `organisation ${n}`).toBe(1);
});

test('a gateway with a steady rate of requests claims ahead, so none of them waits', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  const wide = { ...minute, limit: 6000 };
  // Admits requests with pauses in between, until the process begins to claim ahead.
  for (let n = 0; n < 20; n++) {
    one.add(wide, 5, log.nowMs);
    log.pass(200);
  }
  for (let n = 0; n < 50; n++) {
    expect(log.take(one, wide, 5), `after ${n * 200} ms`).toBe(5);
    log.pass(200);
  }
});

test('requests in flight count under the gateway’s next id', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, 4);
  const before = one.process;
  log.set(one, 'cut off');
  log.pass(9000);
  expect(one.process).not.toBe(before);
  expect(one.used(inFlight)).toBe(4);
  log.set(one, 'live');
  log.pass(1000);
  expect(other.fold.findClaim(before, inFlight)).toBe(0);
  expect(usedIn(other, inFlight)).toBe(4);
});

test('a restarted gateway ends its predecessor’s requests in flight on the same data folder', () => {
  const log = new ClaimLog();
  const [one, other] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, 4);
  expect(usedIn(other, inFlight)).toBe(4);
  log.kill(one);
  log.open(one.process);
  log.pass(200);
  expect(usedIn(other, inFlight)).toBe(0);
});

test('of several claims that were sent but not read back, the smallest applies', () => {
  const log = new ClaimLog();
  const [one] = log.openAll(2) as [Claimant, Claimant];
  hold(log, one, 8);
  log.pass(2000);
  log.set(one, 'cut off');
  for (let n = 0; n < 6; n++) one.remove(inFlight, 1);
  log.pass(1200);
  for (let n = 0; n < 6; n++) one.wait(inFlight, 1, log.nowMs + 9000, log.nowMs, () => undefined);
  log.pass(4000);
  expect(one.isCutOff(log.nowMs)).toBe(true);
  expect(one.room(inFlight, log.nowMs), 'its share').toBe(5);
});

test('a gateway’s last record can be read even if it has more minutes than fit in one record', () => {
  const log = new ClaimLog();
  const [first] = log.openAll(1) as [Claimant];
  for (let n = 0; n < gaugeEntriesMax + 1; n++) log.take(first, { ...minute, subject: `org-${n}` }, 1);
  const last = decodeGauges(encodeGauges(first.goodbye(log.nowMs)));
  expect(last?.ended).toEqual([[last?.process, Number.MAX_SAFE_INTEGER]]);
});

test('raising a limit takes effect at once on a lone gateway', () => {
  const log = new ClaimLog();
  const one = log.open();
  log.pass(1000);
  expect(one.isAlone).toBe(true);
  const small: Limit = { subject: 'acme', window: inFlightWindow, limit: 1 };
  expect(log.take(one, small, 2)).toBe(1);
  log.pass(1200);
  expect(one.fold.row(small)?.limit).toBe(1);
  expect(log.take(one, small, 1)).toBe(0);
  expect(log.take(one, { ...small, limit: 100 }, 200)).toBe(99);
});
