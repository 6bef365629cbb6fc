import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { statusTopic } from '../../schemas/records/status.ts';
import { usagePartition, usageTopic } from '../../schemas/records/usage.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { usageMac } from '../../test/support/usage-mac.ts';
import { comparedRows } from './usage-state.ts';
import { openUsageStore, type UsageStore, type UsageStoreOptions } from './usage-store.ts';

const a = '0f8fad5b-d9cb-469f-a165-70867728950e';
const b = '7c9e6679-7425-40de-944b-e07fc1f90ae7';
const period = '2026-11-01';

const open: UsageStore[] = [];
const folders: string[] = [];
function store(options: UsageStoreOptions = {}, path = ':memory:'): UsageStore {
  const opened = openUsageStore(path, { mac: usageMac, ...options });
  open.push(opened);
  return opened;
}
function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'headgate-usage-'));
  folders.push(made);
  return made;
}
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
  for (const each of open.splice(0)) each.close();
  for (const each of folders.splice(0)) rmSync(each, { recursive: true });
});

function row(incarnation: string, n: number, more: object = {}): object {
  return {
    v: 1,
    incarnation,
    n,
    at: '2026-11-21T10:00:00.000Z',
    organisation: 'acme',
    period,
    draw: 'pool',
    model: 'echo-small',
    promptTokens: n,
    completionTokens: 1,
    requestId: `r-${n}`,
    ...more,
  };
}
const turn = { organisation: null, period: null, visitor: 'v1' };

function records(from: number, ...values: unknown[]): LogRecord[] {
  return values.map((each, index) => {
    const value = Buffer.isBuffer(each) ? each : Buffer.from(JSON.stringify(each));
    return { offset: from + index, value, signature: usageMac.of(value) };
  });
}

test('Limits 4: totals include pool, stacks and own nodes, and allowances only the pool', () => {
  const usage = store();
  usage.apply(
    0,
    records(0, [
      row(a, 1),
      row(a, 2, { draw: 'stack', stack: 'stk-a-b-c' }),
      row(a, 3, { draw: 'own', model: 'echo-large' }),
      row(a, 4, { organisation: 'other' }),
      row(a, 5, { period: '2026-12-01' }),
      row(a, 6),
    ]),
  );
  expect(usage.totals('acme', period)).toEqual({
    totalTokens: 2 + 3 + 4 + 7,
    requests: 4,
    models: [
      { model: 'echo-large', promptTokens: 3, completionTokens: 1, totalTokens: 4, requests: 1 },
      { model: 'echo-small', promptTokens: 1 + 2 + 6, completionTokens: 3, totalTokens: 12, requests: 3 },
    ],
  });
  expect(usage.poolTokens('acme', period)).toBe(2 + 7);
  expect(usage.poolTokens('acme', '2026-12-01')).toBe(6);
  expect(usage.periods('acme')).toEqual([period, '2026-12-01']);
  expect(usage.totals('nobody', period)).toEqual({ totalTokens: 0, requests: 0, models: [] });
});

test('all visitors together are summed by UTC day, outside what control planes compare and publish', () => {
  const usage = store();
  const later = { at: '2026-11-30T23:59:59.999Z', visitor: 'v2', replica: b };
  const rows = [
    turn,
    { ...turn, visitor: 'v2' },
    { ...turn, ...later },
    {},
    { ...turn, at: '2026-12-01T00:00:00.000Z' },
  ];
  usage.apply(
    0,
    records(
      0,
      rows.map((more, index) => row(a, index + 1, more)),
    ),
  );
  const ofDay = (day: string) => {
    const { totalTokens, requests } = usage.totals('visitors:all', day);
    return [day, totalTokens, requests];
  };
  expect(usage.periods('visitors:all').map(ofDay)).toEqual([
    ['2026-11-21', 1 + 2 + 2, 2],
    ['2026-11-30', 3 + 1, 1],
    ['2026-12-01', 5 + 1, 1],
  ]);
  expect(usage.poolTotals().map(({ organisation }) => organisation)).toEqual(['acme']);
});

test('a repeated row counts once, and a repeat that differs raises an alarm', () => {
  const usage = store();
  const applied = usage.apply(0, records(0, [row(a, 1), row(a, 2)], [row(a, 1), row(a, 2)], [row(a, 2)]));
  expect(applied).toMatchObject({ consumed: 3, gaps: [] });
  expect(applied.rows.map(({ n }) => n)).toEqual([1, 2]);
  expect(usage.counts).toMatchObject({ applied: 2, repeated: 3, differing: 0 });
  usage.apply(0, records(3, [row(a, 2, { promptTokens: 99 })]));
  expect(usage.counts).toMatchObject({ applied: 2, repeated: 3, differing: 1 });
  expect(usage.poolTokens('acme', period)).toBe(2 + 3);
});

test('a differing repeat raises an alarm while its row’s hash is kept, even after a restart', () => {
  const path = join(folder(), 'usage.db');
  const forged = (n: number): object => row(a, n, { organisation: 'nobody' });
  const rowsFrom = (n: number, count: number, of: (n: number) => object) =>
    Array.from({ length: count }, (_, index) => of(n + index));
  const before = store({}, path);
  // Forged rows have already taken the numbers of the next rows.
  before.apply(0, records(0, [row(a, 1)], rowsFrom(2, 500, forged)));
  before.apply(
    0,
    records(
      2,
      rowsFrom(2, 10, (n) => row(a, n)),
    ),
  );
  expect(before.counts).toMatchObject({ applied: 501, differing: 10, repeated: 0 });
  const after = store({}, path);
  after.apply(
    0,
    records(
      3,
      rowsFrom(12, 10, (n) => row(a, n)),
      [row(a, 1)],
      rowsFrom(2, 500, forged),
    ),
  );
  expect(after.counts).toMatchObject({ applied: 0, differing: 10, repeated: 501 });
  const kept = comparedRows;
  after.apply(
    0,
    records(
      6,
      rowsFrom(502, kept, (n) => row(a, n)),
    ),
  );
  after.apply(0, records(7, [forged(501), forged(502), forged(501 + kept)]));
  expect(after.counts).toMatchObject({ applied: kept, differing: 12, repeated: 502 });
});

function signed(mac: RecordMac | undefined, record: LogRecord): LogRecord {
  return { ...record, signature: mac?.of(record.value) ?? null };
}
const mac = new RecordMac(usageTopic, 'present-gateway-token');

test.each<[claim: string, forge: (record: LogRecord) => LogRecord, outcome: 'unsigned' | 'wrong_mac']>([
  ['no MAC', (record) => signed(undefined, record), 'unsigned'],
  ['an empty MAC', (record) => ({ ...record, signature: Buffer.alloc(0) }), 'unsigned'],
  ['another token’s MAC', (record) => signed(new RecordMac(usageTopic, 'another'), record), 'wrong_mac'],
  [
    'another topic’s MAC',
    (record) => signed(new RecordMac(statusTopic, 'present-gateway-token'), record),
    'wrong_mac',
  ],
  [
    'half of its MAC',
    (record) => ({ ...record, signature: mac.of(record.value).subarray(0, 16) }),
    'wrong_mac',
  ],
  [
    'another incarnation’s MAC',
    (record) => ({ ...record, signature: mac.of(Buffer.from(record.value.toString().replace(a, b))) }),
    'wrong_mac',
  ],
  [
    'another number’s MAC',
    (record) => ({
      ...record,
      signature: mac.of(Buffer.from(record.value.toString().replace('"n":1', '"n":2'))),
    }),
    'wrong_mac',
  ],
])('a record with %s does not count, and is noted with its offset', (_claim, forge, outcome) => {
  const [good, next] = records(0, [row(a, 1)], [row(a, 1, { promptTokens: 7 })]);
  const usage = store({ mac });
  usage.apply(0, [forge(good!), signed(mac, next!)]);
  expect(usage.counts).toMatchObject({ applied: 1, [outcome]: 1, junk: 0, differing: 0 });
  expect(usage.poolTokens('acme', period)).toBe(8);
  expect(usage.refused).toEqual([{ count: 1, first: 0, last: 0 }]);
});

test('records with a former token count while that token is known, and without a token none counts', () => {
  const [record] = records(0, [row(a, 1)]);
  const former = new RecordMac(usageTopic, 'former-gateway-token');
  const both = new RecordMac(usageTopic, 'present-gateway-token', 'former-gateway-token');
  for (const [known, applied] of [
    [mac, 0],
    [both, 1],
  ] as const) {
    const usage = store({ mac: known });
    usage.apply(0, [signed(former, record!)]);
    expect(usage.counts.applied).toBe(applied);
  }
  const none = openUsageStore(':memory:');
  open.push(none);
  none.apply(0, [signed(undefined, record!), { ...signed(former, record!), offset: 1 }]);
  expect(none.counts).toMatchObject({ applied: 0, unsigned: 1, wrong_mac: 1 });
});

test('refused records are read again at the next start, and count once their writer is accepted', () => {
  const path = join(folder(), 'usage.db');
  const rows = records(0, [row(a, 1)], [row(a, 2)], [row(a, 3)], [row(b, 1)]);
  const other = new RecordMac(usageTopic, 'another');
  const log = rows.map((record, index) => signed(index === 1 || index === 3 ? other : mac, record));
  const read = (more: UsageStoreOptions) => {
    const usage = store({ mac, ...more }, path);
    usage.begin(0);
    const from = usage.nextOffset(0);
    if (from < log.length) usage.apply(0, log.slice(from));
    return [from, usage.poolTokens('acme', period), usage.parkedRows];
  };
  expect(read({})).toEqual([0, 2, 1]);
  // The second row is still refused, so the third has to wait.
  expect(read({})).toEqual([1, 2, 1]);
  expect(read({ mac: new RecordMac(usageTopic, 'present-gateway-token', 'another') })).toEqual([
    1,
    2 + 3 + 4 + 2,
    0,
  ]);
  expect(read({})).toEqual([4, 2 + 3 + 4 + 2, 0]);
});

test('rows after a gap are parked and reported, and count once the missing ones arrive', () => {
  const usage = store();
  const gapped = usage.apply(0, records(0, [row(a, 1), row(a, 3), row(a, 5)], [row(b, 1)]));
  expect(gapped.gaps).toEqual([{ incarnation: a, next: 2 }]);
  expect(usage.poolTokens('acme', period)).toBe(2 + 2);
  expect(usage.parkedRows).toBe(2);
  usage.apply(0, records(2, [row(a, 3)], [row(a, 3, { promptTokens: 99 })]));
  expect(usage.counts).toMatchObject({ parked: 2, repeated: 1, differing: 1 });
  const closed = usage.apply(0, records(4, [row(a, 2)]));
  expect(closed.rows.map(({ n }) => n)).toEqual([2, 3]);
  expect(usage.apply(0, records(5, [row(a, 4)])).gaps).toEqual([]);
  expect(usage.poolTokens('acme', period)).toBe(2 + 2 + 3 + 4 + 5 + 6);
  expect(usage.parkedRows).toBe(0);
  expect(usage.highWater(a)).toBe(5);
});

test('with too many parked rows the missing ones are skipped, and never count later', () => {
  const usage = store({ parkedMax: 2 });
  const applied = usage.apply(0, records(0, [row(a, 4), row(a, 5), row(a, 6), row(a, 3), row(a, 7)]));
  expect(applied.rows.map(({ n }) => n)).toEqual([4, 5, 6, 7]);
  expect(applied.gaps).toEqual([]);
  expect(usage.counts).toMatchObject({ applied: 4, parked: 3, lost: 3, repeated: 1 });
  expect(usage.parkedRows).toBe(0);
});

test('an unknown incarnation begins at 1 in a whole log, and at its first kept row in a trimmed one', () => {
  const whole = store();
  expect(whole.apply(0, records(0, [row(a, 7)])).gaps).toEqual([{ incarnation: a, next: 1 }]);
  const trimmed = store();
  expect(trimmed.apply(0, records(500, [row(a, 7)], [row(b, 3), row(b, 5)])).rows).toHaveLength(2);
  expect(trimmed.apply(0, records(502, [row(b, 4)])).rows.map(({ n }) => n)).toEqual([4, 5]);
  expect(trimmed.highWater(a)).toBe(7);
});

test('an incarnation with waiting rows does not restart when the log is trimmed', () => {
  const usage = store();
  usage.apply(0, records(0, [row(a, 5)]));
  expect(usage.apply(0, records(100, [row(a, 7)])).gaps).toEqual([{ incarnation: a, next: 1 }]);
  usage.apply(
    0,
    records(
      101,
      [1, 2, 3, 4, 6].map((n) => row(a, n)),
    ),
  );
  expect([usage.highWater(a), usage.parkedRows, usage.counts.applied]).toEqual([7, 0, 7]);
});

test('a row of a later version is skipped, and junk changes nothing', () => {
  const usage = store();
  const junk = [Buffer.from([0xff, 0x00]), Buffer.from('{'), {}, [7, null, { incarnation: a, n: 1, v: 1 }]];
  usage.apply(0, records(0, ...junk, [{ v: 2, incarnation: a, n: 1 }, row(a, 2)]));
  expect(usage.counts).toMatchObject({ junk: 6, unread: 1, applied: 1, parked: 0 });
  expect(usage.nextOffset(0)).toBe(5);
});

test('a slice ends when its time is up, after at least one record, and the next continues there', () => {
  const usage = store();
  const all = records(0, [row(a, 1)], [row(a, 2)], [row(a, 3)]);
  let rest = all;
  for (const consumed of [1, 1, 1]) {
    const applied = usage.apply(0, rest, 0);
    expect(applied.consumed).toBe(consumed);
    rest = rest.slice(applied.consumed);
    expect(usage.nextOffset(0)).toBe(all.length - rest.length);
  }
  expect(usage.highWater(a)).toBe(3);
});

test('totals, marks, parked rows and position survive a restart together', () => {
  const path = join(folder(), 'usage.db');
  const before = store({}, path);
  before.apply(3, records(0, [row(a, 1), row(a, 2), row(a, 4)]));
  before.close();
  open.length = 0;
  const after = store({}, path);
  expect([after.nextOffset(3), after.nextOffset(0), after.highWater(a), after.parkedRows]).toEqual([
    1, 0, 2, 1,
  ]);
  expect(after.poolTokens('acme', period)).toBe(5);
  after.restart(3);
  after.apply(3, records(0, [row(a, 1), row(a, 2), row(a, 4)], [row(a, 3)]));
  expect(after.poolTokens('acme', period)).toBe(2 + 3 + 4 + 5);
});

test('a failed transaction changes nothing, neither in the file nor in memory', () => {
  const path = join(folder(), 'usage.db');
  const usage = store({}, path);
  usage.apply(0, records(0, [row(a, 1)]));
  expect(usage.poolTokens('acme', period)).toBe(2);
  const saboteur = openDatabase(path, { durability: 'normal' });
  saboteur.exec(`CREATE TRIGGER sabotage BEFORE INSERT ON total BEGIN SELECT raise(ABORT, 'no'); END`);
  expect(() => usage.apply(0, records(1, [row(a, 2), row(a, 4)]))).toThrow('no');
  expect([usage.highWater(a), usage.nextOffset(0), usage.parkedRows]).toEqual([1, 1, 0]);
  expect(usage.counts).toMatchObject({ applied: 1, parked: 0 });
  saboteur.exec('DROP TRIGGER sabotage');
  saboteur.close();
  usage.apply(0, records(1, [row(a, 2), row(a, 4)]));
  expect(usage.poolTokens('acme', period)).toBe(5);
});

test('rows are kept for export if requested, and pages continue after the last row', () => {
  const usage = store({ keepRows: true });
  usage.apply(
    0,
    records(0, [row(a, 1), row(a, 2, turn), row(a, 3), row(a, 1), row(a, 4, { period: '2026-12-01' })]),
  );
  const first = usage.requests({ limit: 2 });
  expect(first.map((kept) => kept.row)).toEqual([row(a, 1), row(a, 2, turn)]);
  expect(usage.requests({ limit: 9, afterId: first[1]!.id }).map((kept) => kept.row.n)).toEqual([3, 4]);
  const mine = { organisation: 'acme', period, limit: 9 };
  expect(usage.requests(mine).map((kept) => kept.row.n)).toEqual([1, 3]);
  const plain = store();
  plain.apply(0, records(0, [row(a, 1)]));
  expect(plain.requests({ limit: 9 })).toEqual([]);
});

const usesOf = (usage: UsageStore, organisation?: string) =>
  usage.keyUses(organisation, Date.parse('2026-11-21T10:30:00Z'));
const keyRows = [
  row(a, 1, { key: 'k1', at: '2026-11-19T08:00:00.000Z' }),
  row(a, 2, { key: 'k1', at: '2026-11-20T11:00:00.000Z' }),
  row(a, 3, { key: 'k1', at: '2026-11-20T10:59:59.000Z' }),
  row(a, 4, { key: 'k2', at: '2026-11-21T10:00:00.000Z', organisation: 'elm' }),
  row(a, 5, turn),
  row(a, 6, { key: 'k1', at: '2026-11-20T12:00:00.000Z' }),
];
const k1 = { key: 'k1', lastUsedAt: '2026-11-20T12:00:00.000Z', requestsOfDay: 2 };
const k2 = { key: 'k2', lastUsedAt: '2026-11-21T10:00:00.000Z', requestsOfDay: 1 };

test('after a start, each key’s latest and daily requests are known without reading rows again', () => {
  vi.setSystemTime('2026-11-20T12:30:00Z');
  const path = join(folder(), 'usage.db');
  const first = store({ keepRows: true }, path);
  first.apply(0, records(0, keyRows.slice(0, 4)));
  first.close();
  const usage = store({ keepRows: true }, path);
  usage.apply(0, records(1, keyRows));
  expect(usesOf(usage)).toEqual([k1, k2]);
  expect([usesOf(usage, 'elm'), usage.keyUse('k2', Date.parse(k2.lastUsedAt))]).toEqual([[k2], k2]);
  expect(usage.keyUses(undefined, Date.parse('2026-11-23T00:00:00Z'))).toEqual(
    [k1, k2].map((use) => ({ ...use, requestsOfDay: 0 })),
  );
});

test.each<[claim: string, spoil: (path: string) => void, refusal: RegExp]>([
  [
    'a damaged file',
    (path) => writeFileSync(path, 'x'.repeat(8192)),
    /usage\.db is damaged \(SQLITE_NOTADB\); move it away and put a backup/,
  ],
  [
    'a file in another format',
    (path) => {
      const db = openDatabase(path, { durability: 'normal' });
      db.pragma('user_version = 99');
      db.close();
    },
    /usage\.db/,
  ],
])('%s is refused, because it is primary data', (_claim, spoil, refusal) => {
  const path = join(folder(), 'usage.db');
  spoil(path);
  expect(() => openUsageStore(path)).toThrow(refusal);
});

/** Rows of two incarnations in any order, each at least once, on any of three partitions. */
const interleaving = fc
  .record({ rowsOfA: fc.integer({ min: 0, max: 12 }), rowsOfB: fc.integer({ min: 0, max: 12 }) })
  .chain(({ rowsOfA, rowsOfB }) => {
    const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
    const all = [
      ...numbers(rowsOfA).map((n) => row(a, n)),
      ...numbers(rowsOfB).map((n) => row(b, n, n % 3 === 0 ? turn : { draw: n % 2 ? 'pool' : 'own' })),
    ];
    const repeats = all.length === 0 ? fc.constant([]) : fc.array(fc.constantFrom(...all), { maxLength: 20 });
    return repeats
      .chain((again) => fc.shuffledSubarray([...all, ...again], { minLength: all.length + again.length }))
      .chain((order) =>
        fc.record({
          all: fc.constant(all),
          order: fc.constant(order),
          partitions: fc.array(fc.nat(2), { minLength: order.length, maxLength: order.length }),
        }),
      );
  });

function answers(usage: UsageStore): unknown {
  const marks = [usage.highWater(a), usage.highWater(b), usage.parkedRows];
  return [usage.totals('acme', period), usage.poolTokens('acme', period), marks];
}

test('any interleaving of rows, repeats and partitions gives the same totals', () => {
  fc.assert(
    fc.property(interleaving, ({ all, order, partitions }) => {
      const expected = store();
      expected.apply(0, records(0, all));
      const usage = store();
      const offsets = [0, 0, 0];
      for (const [index, each] of order.entries()) {
        const partition = partitions[index]!;
        usage.apply(partition, records(offsets[partition]!++, [each]));
      }
      expect(answers(usage)).toEqual(answers(expected));
      expect(usage.counts).toMatchObject({ applied: all.length, differing: 0, lost: 0 });
      for (const each of open.splice(0)) each.close();
    }),
    { numRuns: 60 },
  );
});

test('a copy of signed rows in another partition does not keep them from counting in their own', () => {
  const mac = new RecordMac(usageTopic, 'the gateway token');
  const usage = store({ mac, partitions: 12 });
  const signed = (from: number, ...values: unknown[]): LogRecord[] =>
    records(from, ...values).map((record) => ({ ...record, signature: mac.of(record.value) }));
  const own = usagePartition(a, 12);
  const other = (own + 1) % 12;
  usage.begin(other);
  usage.begin(own);
  // The partition of the copy has lost its first records, so an incarnation may start with any number there.
  expect(usage.apply(other, signed(9, [row(a, 3)])).consumed).toBe(1);
  usage.apply(own, signed(0, [row(a, 1), row(a, 2)], [row(a, 3)]));
  expect(usage.totals('acme', period).requests).toBe(3);
  expect(usage.counts).toMatchObject({ applied: 3, repeated: 0, junk: 1 });
});

test.each([4, 6])('a file of format %i is refused by name, because no released version made it', (format) => {
  const path = join(folder(), 'usage.db');
  store({}, path).close();
  const former = openDatabase(path, { durability: 'normal' });
  former.pragma(`user_version = ${format}`);
  former.close();
  expect(() => openUsageStore(path)).toThrow(/usage\.db was written by an earlier version/);
});

const dayOf = (day: string) => ({ day, first_id: 0, last_id: 0, rows: 0 });

test('Limits 4: a row ahead of the log’s time counts at the log’s time, and a late row in its own period', () => {
  const usage = store({ keepRows: true });
  usage.rows.noteMoved({ moved: 0, days: [dayOf('2026-11-20')] });
  const atMs = Date.parse('2026-11-21T12:00:00Z');
  const january = { at: '2027-01-04T10:00:00.000Z', period: '2027-01-01' };
  const october = { at: '2026-10-04T10:00:00.000Z', period: '2026-10-01' };
  const rows = [row(a, 1, january), row(a, 2, october), row(a, 3), row(a, 4, { ...turn, at: january.at })];
  usage.apply(0, [{ ...records(0, rows)[0]!, atMs }]);
  expect(usage.periods('acme')).toEqual(['2026-10-01', period]);
  expect(usage.requests({ limit: 9 }).map(({ row: { at } }) => at.slice(0, 13))).toEqual([
    '2026-11-21T12',
    '2026-10-04T10',
    '2026-11-21T10',
    '2026-11-21T12',
  ]);
  // The same record again counts as repeated, not as a different row with the same number.
  usage.apply(0, [{ ...records(1, rows)[0]!, atMs: atMs + 1000 }]);
  expect(usage.counts).toMatchObject({ applied: 4, repeated: 4, differing: 0 });
});

test('Limits 4: while the log’s time is behind earlier rows, a row counts in its own period', () => {
  const usage = store({ keepRows: true });
  usage.rows.noteMoved({ moved: 0, days: [dayOf('2026-11-21')] });
  usage.apply(0, [{ ...records(0, [row(a, 1)])[0]!, atMs: Date.parse('2026-10-12T12:00:00Z') }]);
  expect(usage.periods('acme')).toEqual([period]);
});
