/** Tests the counters of one gateway: conflicts about its replica id, and when and what it publishes. */
import { expect, test } from 'vitest';
import type { CounterEntry } from '../../schemas/records/limits.ts';
import { CounterState, counterKey } from '../../shared/limits/counters.ts';
import { type CounterLedger, GatewayCounters } from './gateway-counters.ts';

const nowMs = Date.UTC(2026, 10, 22);
const period = '2026-11-01';
const key = counterKey('acme', period);

function folder() {
  let replicas = 0;
  const own = new Map<string, { tokens: number; turns: number }>();
  const formers: { replica: string; entries: CounterEntry[] }[] = [];
  const entries = (): CounterEntry[] =>
    [...own].map(([each, { tokens, turns }]) => {
      const [subject = '', of = ''] = each.split(' ');
      return [subject, of, tokens, turns];
    });
  const ledger: CounterLedger = {
    get replica() {
      return `replica-${replicas}`;
    },
    get: (each) => own.get(each),
    isOwnProcess: (process) => process === 'own',
    entries,
    former: () => formers,
    renew: () => {
      formers.push({ replica: `replica-${replicas++}`, entries: entries() });
      own.clear();
    },
  };
  const add = (subject: string, tokens: number): void => {
    const sum = own.get(counterKey(subject, period)) ?? { tokens: 0, turns: 0 };
    own.set(counterKey(subject, period), { tokens: sum.tokens + tokens, turns: sum.turns + 1 });
  };
  const state = new CounterState();
  const counters = new GatewayCounters({ ledger, state, process: 'own', live: () => 2 }, nowMs);
  return { ledger, add, counters };
}

test('after a conflict, earlier use keeps counting under the old id and later use under a new one', () => {
  const { ledger, add, counters } = folder();
  add('acme', 10);
  const { replica } = ledger;
  // Another process, which runs on a copy of this data folder, has published a lower count.
  const entries: CounterEntry[] = [['acme', period, 4, 1]];
  const { conflict } = counters.read({ v: 1, replica, process: 'copy', at: nowMs, entries }, nowMs);
  expect(conflict).toBe('another process');
  expect(ledger.replica).not.toBe(replica);
  expect(counters.used(key)).toEqual({ tokens: 10, turns: 1 });
  add('acme', 5);
  expect(counters.used(key)).toEqual({ tokens: 15, turns: 2 });
  const published = counters.everything(nowMs).map((each) => [each.replica, each.entries]);
  expect(published).toEqual([
    [ledger.replica, [['acme', period, 5, 1]]],
    [replica, [['acme', period, 10, 1]]],
  ]);
});

test('use that is not urgent is published within a minute, in one record with other changes', () => {
  const { add, counters } = folder();
  for (const [index, subject] of ['acme', 'beta', 'gamma'].entries()) {
    add(subject, 7);
    counters.grown(counterKey(subject, period), 7, nowMs + index * 10_000);
    expect(counters.due(nowMs + index * 10_000)).toEqual([]);
  }
  expect(counters.due(nowMs + 59_999)).toEqual([]);
  const [record, ...more] = counters.due(nowMs + 60_000);
  expect(more).toEqual([]);
  expect(record?.entries.map(([subject]) => subject)).toEqual(['acme', 'beta', 'gamma']);
  expect(counters.due(nowMs + 200_000)).toEqual([]);
});

test('an entry near the end of its allowance is published at once, alone', () => {
  const { add, counters } = folder();
  for (const subject of ['acme', 'beta']) add(subject, 7);
  counters.grown(counterKey('beta', period), 7, nowMs, 1_000_000);
  counters.grown(key, 7, nowMs, 500);
  expect(counters.due(nowMs).flatMap(({ entries }) => entries.map(([subject]) => subject))).toEqual(['acme']);
});
