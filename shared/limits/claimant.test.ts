import { expect, test } from 'vitest';
import type { GaugeRecord } from '../../schemas/gauges.ts';
import { Claimant, type Limit } from './claimant.ts';

const limit: Limit = { subject: 'acme', window: 60_000, limit: 60 };
let minted = 0;
const open = (predecessor?: string): Claimant =>
  new Claimant({ name: 'gw', mint: () => `process-${++minted}`, live: 1, predecessor });

/** A log without delays, and its readers. */
function openLog() {
  const records: GaugeRecord[] = [];
  const readers: Claimant[] = [];
  let nowMs = 0;
  const read = (reader: Claimant, from: number): void => {
    for (const [index, record] of records.entries())
      if (index >= from) reader.onRecord(record, index + 1, nowMs);
  };
  const append = (record: GaugeRecord): void => {
    records.push(record);
    for (const reader of readers) reader.onRecord(record, records.length, nowMs);
  };
  const join = (reader: Claimant): void => {
    readers.push(reader);
    read(reader, 0);
  };
  return {
    join,
    now: () => nowMs,
    /** Ticks of all that are there. */
    pass(ms: number): void {
      for (const untilMs = nowMs + ms; nowMs < untilMs; nowMs += 200)
        for (const each of [...readers]) for (const record of each.records(nowMs, nowMs)) append(record);
    },
    leave(reader: Claimant): void {
      append(reader.goodbye(nowMs));
      readers.splice(readers.indexOf(reader), 1);
    },
  };
}

/** How many of these requests are admitted at once. */
function admitted(claimant: Claimant, requests: number, nowMs: number): number {
  let count = 0;
  for (let n = 0; n < requests; n++) {
    if (!claimant.admits(limit, 1, nowMs)) continue;
    claimant.add(limit, 1, nowMs);
    count++;
  }
  return count;
}

test.each(['on its data folder', 'without its data folder'])(
  'a gateway that was alone and stopped leaves its room to the one that starts %s',
  (how) => {
    const first = open();
    const log = openLog();
    log.join(first);
    log.pass(1000);
    expect(first.isAlone).toBe(true);
    expect(admitted(first, 10, log.now())).toBe(10);
    log.pass(400);
    log.leave(first);
    const second = open(how === 'on its data folder' ? first.process : undefined);
    log.join(second);
    expect(second.fold.alone).toBeUndefined();
    log.pass(1000);
    expect(second.isAlone).toBe(true);
    // What was used of the minute counts further.
    expect(admitted(second, 60, log.now())).toBe(50);
  },
);

test('where the log is silent, a request may wait until the gateway counts as cut off, and no longer', () => {
  const gateway = open();
  const log = openLog();
  log.join(gateway);
  log.pass(1000);
  expect(gateway.cutOffInMs(log.now() + 100)).toBeUndefined();
  // Sent, and not given back.
  gateway.add(limit, 1, log.now());
  expect(gateway.records(log.now(), log.now()).length).toBeGreaterThan(0);
  const sentMs = log.now();
  expect(gateway.cutOffInMs(sentMs + 300)).toBeUndefined();
  const leftMs = gateway.cutOffInMs(sentMs + 500) ?? 0;
  expect(leftMs).toBeGreaterThan(0);
  expect(gateway.isCutOff(sentMs + 500 + leftMs - 2)).toBe(false);
  expect(gateway.isCutOff(sentMs + 500 + leftMs)).toBe(true);
  expect(gateway.cutOffInMs(sentMs + 500 + leftMs)).toBe(0);
});
