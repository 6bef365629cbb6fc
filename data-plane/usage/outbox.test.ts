import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { UsageBox, usageRow } from '../../test/support/usage-rows.ts';
import type { Outbox, OutboxOptions } from './outbox.ts';
import type { Shipment } from './shipper.ts';

let folder: string;
let path: string;
let clockMs: number;
const errors: string[] = [];
const open: UsageBox[] = [];

beforeEach(() => {
  folder = folderOfTest('outbox');
  path = join(folder, 'outbox.db');
  clockMs = Date.parse('2026-11-21T10:00:00.000Z');
  errors.length = 0;
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function boxOf(options: Partial<OutboxOptions> = {}): UsageBox {
  const onError = ({ message }: Error): void => void errors.push(message);
  const opened = new UsageBox({ path, now: () => clockMs, onError, ...options });
  open.push(opened);
  return opened;
}
function numbers(shipment: Shipment | undefined): number[] {
  return (shipment?.bodies ?? []).map((body) => JSON.parse(body).n);
}
function shipAll({ outbox: box }: { readonly outbox: Outbox }): Map<string, number[]> {
  const shipped = new Map<string, number[]>();
  for (let next = box.nextShipment(); next; next = box.nextShipment()) {
    shipped.set(next.incarnation, [...(shipped.get(next.incarnation) ?? []), ...numbers(next)]);
    box.markShipped(next);
  }
  return shipped;
}
/** Makes each transaction fail until the returned function is called. */
function sabotage(): () => void {
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(`CREATE TRIGGER sabotage BEFORE UPDATE ON place BEGIN SELECT raise(ABORT, 'no room'); END`);
  return () => {
    db.exec('DROP TRIGGER sabotage');
    db.close();
  };
}

test('a row counts once recorded, and is shipped with its number, incarnation and replica', async () => {
  const { outbox: box, ...rest } = boxOf();
  await open[0]?.record(usageRow());
  expect([box.unshipped, Object.keys(rest)]).toEqual([1, ['log']]);
  expect(JSON.parse(box.nextShipment()!.bodies[0]!)).toEqual({
    v: 1,
    incarnation: box.incarnation,
    n: 1,
    replica: box.ledger.replica,
    ...usageRow(),
  });
});

test('rows that arrive together share one transaction', async () => {
  const box = boxOf();
  let transactions = 0;
  box.outbox.setOnDurable(() => {
    transactions++;
  });
  await box.record(...Array.from({ length: 450 }, () => usageRow()));
  expect(transactions).toBe(1);
  expect(shipAll(box).get(box.outbox.incarnation)).toEqual(Array.from({ length: 450 }, (_, at) => at + 1));
  expect(box.outbox.unshipped).toBe(0);
});

test('an invalid row is refused and reported, uses no number, and its values do not appear in the error', async () => {
  const box = boxOf();
  await box.record(usageRow({ model: 'secret prompt text' }));
  await box.record(usageRow({ promptTokens: Number.NaN }), usageRow());
  expect(numbers(box.outbox.nextShipment())).toEqual([1]);
  expect(box.outbox.refused).toBe(2);
  expect(errors).toEqual(['a usage row is invalid at model', 'a usage row is invalid at promptTokens']);
  expect(box.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 7, turns: 1 });
});

test('each start has its own incarnation, and older rows ship first, under their own', async () => {
  const first = boxOf();
  await first.record(usageRow());
  await first.record(usageRow());
  await first.close();
  const second = boxOf();
  await second.record(usageRow());
  expect(second.outbox.incarnation).not.toBe(first.outbox.incarnation);
  expect([...shipAll(second)]).toEqual([
    [first.outbox.incarnation, [1, 2]],
    [second.outbox.incarnation, [1]],
  ]);
});

test('deleting the outbox begins a new incarnation at 1, and its log is kept for inspection', async () => {
  const first = boxOf();
  await first.record(usageRow());
  await first.close();
  rmSync(path);
  const second = boxOf();
  await second.record(usageRow());
  expect([...shipAll(second)]).toEqual([[second.outbox.incarnation, [1]]]);
  expect(errors).toEqual([expect.stringMatching(/of another database are not billed: .*damaged-\d+$/)]);
});

test('shipped rows stay shipped after a restart', async () => {
  const first = boxOf();
  for (let count = 0; count < 3; count++) await first.record(usageRow());
  first.outbox.markShipped(first.outbox.nextShipment()!);
  await first.record(usageRow());
  await first.close();
  const second = boxOf();
  expect(numbers(second.outbox.nextShipment())).toEqual([4]);
  expect(second.outbox.unshipped).toBe(1);
});

test('an acknowledgement of rows other than the next ones changes nothing', async () => {
  const box = boxOf();
  for (let count = 0; count < 600; count += 100)
    await box.record(...Array.from({ length: 100 }, () => usageRow()));
  const shipment = box.outbox.nextShipment()!;
  box.outbox.markShipped(shipment);
  box.outbox.markShipped(shipment);
  expect(box.outbox.unshipped).toBe(100);
  const next = box.outbox.nextShipment()!;
  expect(numbers(next)[0]).toBe(501);
  box.outbox.markShipped(next);
  box.outbox.markShipped(shipment);
  expect(box.outbox.unshipped).toBe(0);
});

test('the outbox is full while it holds its maximum of unshipped rows', async () => {
  const box = boxOf({ rowsMax: 3 });
  await box.record(usageRow(), usageRow());
  expect(box.outbox.isFull).toBe(false);
  await box.record(usageRow());
  expect(box.outbox.isFull).toBe(true);
  shipAll(box);
  expect(box.outbox.isFull).toBe(false);
});

test('while the database cannot be written, rows wait in the log, the outbox is full, and no request fails', async () => {
  const box = boxOf();
  const { outbox } = box;
  const repair = sabotage();
  await box.record(usageRow());
  expect([outbox.isFull, outbox.failures, errors]).toEqual([true, 1, ['no room']]);
  await box.record(usageRow());
  expect([outbox.nextShipment(), outbox.ledger.get('acme 2026-11-01')]).toEqual([undefined, undefined]);
  const durable = new Promise<void>((resolve) => outbox.setOnDurable(resolve));
  repair();
  await durable;
  expect(outbox.isFull).toBe(false);
  await box.record(usageRow());
  expect(shipAll(box).get(outbox.incarnation)).toEqual([1, 2, 3]);
  expect(outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
});

test('rows that the usage log lost are shipped again while they are kept', async () => {
  const box = boxOf();
  const { outbox } = box;
  for (let count = 0; count < 5; count++) await box.record(usageRow());
  shipAll(box);
  expect(outbox.reship(outbox.incarnation, 6)).toBe(false);
  expect(outbox.reship('of-another-gateway', 1)).toBe(false);
  expect(outbox.reship(outbox.incarnation, 4)).toBe(true);
  expect(shipAll(box).get(outbox.incarnation)).toEqual([4, 5]);
  await box.close();
  const after = boxOf();
  await after.record(usageRow());
  expect(after.outbox.reship(outbox.incarnation, 2)).toBe(true);
  expect([...shipAll(after)]).toEqual([
    [outbox.incarnation, [2, 3, 4, 5]],
    [after.outbox.incarnation, [1]],
  ]);
});

test('counters change in the same transaction as their rows, and are the same after a restart', async () => {
  const first = boxOf();
  const settled: unknown[] = [];
  first.outbox.setOnSettled((entries) =>
    settled.push(...entries, first.outbox.ledger.get('acme 2026-11-01')),
  );
  await first.record(usageRow(), usageRow(), usageRow(), usageRow({ draw: 'own' }));
  expect(settled).toEqual([['acme', '2026-11-01', 21, 3], { tokens: 21, turns: 3 }]);
  await first.record(usageRow({ organisation: null, period: null, visitor: 'v1' }));
  await first.close();
  const { outbox } = boxOf();
  expect([...outbox.ledger.entries()].sort()).toEqual([
    ['acme', '2026-11-01', 21, 3],
    ['visitor:v1', '2026-11', 7, 1],
    ['visitors:all', '2026-11-21', 7, 1],
  ]);
  expect(outbox.ledger.replica).toBe(first.outbox.ledger.replica);
  const ids = [first.outbox.incarnation, outbox.incarnation];
  expect(ids.every((id) => outbox.ledger.isOwnProcess(id))).toBe(true);
});

test('a new replica id starts at zero, and rows keep the id under which they count, even when read again', async () => {
  const first = boxOf();
  await first.record(usageRow());
  const old = first.outbox.ledger.replica;
  first.outbox.ledger.renew();
  await first.record(usageRow());
  await first.close();
  const { outbox } = boxOf();
  const { ledger } = outbox;
  expect(ledger.replica).not.toBe(old);
  expect(ledger.get('acme 2026-11-01')).toEqual({ tokens: 7, turns: 1 });
  expect(ledger.former()).toEqual([{ replica: old, entries: [['acme', '2026-11-01', 7, 1]] }]);
  const rows = outbox.nextShipment()?.bodies.map((body) => JSON.parse(body));
  expect(rows).toMatchObject([
    { n: 1, replica: old },
    { n: 2, replica: ledger.replica },
  ]);
});

test('the folder keeps its latest 10 000 visitors, and entries until 33 days after their period began', async () => {
  const box = boxOf();
  const rows = Array.from({ length: 11_500 }, (_, n) =>
    usageRow({ organisation: null, period: null, visitor: `v${n % 11_400}` }),
  );
  // Record in groups, because each group takes one transaction that waits for the disk.
  for (let from = 0; from < rows.length; from += 100) await box.record(...rows.slice(from, from + 100));
  await box.record(usageRow());
  // A fast clock alone must not remove counters, so let the folder contain counts of a later period, too.
  await box.record(usageRow({ organisation: 'later', period: '2026-12-04' }));
  await box.close();
  const keys = [...boxOf().outbox.ledger.entries()].map(([subject]) => subject);
  const visitors = keys.filter((subject) => subject.startsWith('visitor:'));
  expect(visitors.length).toBeLessThanOrEqual(11_500);
  clockMs = Date.UTC(2026, 11, 4, 0, 0, 1);
  const left = [...boxOf().outbox.ledger.entries()].map(([subject]) => subject);
  expect(left.sort()).toEqual(['later', 'visitors:all']);
});

test('a folder full of networks keeps its visitors, and a folder full of visitors its networks', async () => {
  const box = boxOf();
  const few = Array.from({ length: 100 }, (_, n) => n);
  const many = Array.from({ length: 11_500 }, (_, n) => n);
  const turns = async (pairs: readonly (readonly [visitor: string, network: string])[]): Promise<void> => {
    const rows = pairs.map(([visitor, network]) =>
      usageRow({ organisation: null, period: null, visitor, network }),
    );
    await box.record(...rows);
    clockMs++;
  };
  const kept = ({ outbox }: UsageBox, prefix: string): number =>
    [...outbox.ledger.entries()].filter(([subject]) => subject.startsWith(`visitor:${prefix}`)).length;
  await turns(few.map((n) => [`v-few-${n}`, 'n-busy']));
  await turns(many.map((n) => ['v-busy', `n-many-${n}`]));
  expect([kept(box, 'v-few'), kept(box, 'n-')]).toEqual([100, 10_000]);
  await turns(few.map((n) => ['v-busy', `n-few-${n}`]));
  await turns(many.map((n) => [`v-many-${n}`, 'n-busy']));
  await turns([['v-busy', 'n-busy']]);
  expect([kept(box, 'n-few'), kept(box, 'v-')]).toEqual([100, 10_001]);
  await box.close();
  const after = boxOf();
  expect(kept(after, 'n-few')).toBe(100);
});

test('ended periods are removed with the first row of a new day, without a restart', async () => {
  const box = boxOf();
  const turn = (at: string, network: string): Promise<void> =>
    box.record(usageRow({ at, organisation: null, period: null, visitor: 'v-1', network }));
  await turn('2026-11-21T10:00:00.000Z', 'n-1');
  clockMs = Date.UTC(2026, 11, 24, 0, 0, 1);
  await turn('2026-12-24T00:00:01.000Z', 'n-2');
  const kept = [
    ['visitor:n-2', '2026-12-24', 7, 1],
    ['visitor:v-1', '2026-12', 7, 1],
    ['visitors:all', '2026-12-24', 7, 1],
  ];
  expect([...box.outbox.ledger.entries()].sort()).toEqual(kept);
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  expect(db.prepare('SELECT subject, period FROM counter ORDER BY subject').raw().all()).toEqual(
    kept.map((entry) => entry.slice(0, 2)),
  );
  db.close();
});

test('a turn that a visitor stopped counts when it was admitted, for its network only, and adds no row', async () => {
  clockMs = Date.UTC(2026, 11, 1, 0, 0, 5);
  const first = boxOf();
  const visit = { at: '2026-12-01T00:00:05.000Z', organisation: null, period: null, visitor: 'v-1' };
  const turn = { ...visit, network: 'n-1', admittedMs: Date.UTC(2026, 10, 30, 23, 59) };
  await first.record(usageRow({ ...turn, unfinished: true }));
  await first.record(usageRow(turn));
  await first.record(usageRow({ ...turn, unfinished: true }));
  await first.record(usageRow({ ...turn, visitor: 'v-2', unfinished: true }));
  await first.close();
  const box = boxOf();
  expect([...box.outbox.ledger.entries()].sort()).toEqual([
    ['visitor:n-1', '2026-11-30', 28, 4],
    ['visitor:v-1', '2026-11', 7, 1],
    ['visitors:all', '2026-11-30', 28, 1],
  ]);
  expect([...shipAll(box).values()]).toEqual([[1]]);
  expect(errors).toEqual([]);
});

test('a damaged outbox is quarantined and reported, and recording continues in a new one', async () => {
  writeFileSync(path, 'x'.repeat(8192));
  const box = boxOf();
  expect(errors).toEqual([expect.stringContaining(`${path}.damaged-${clockMs}`)]);
  expect(readdirSync(folder)).toContain(`outbox.db.damaged-${clockMs}`);
  await box.record(usageRow());
  expect(numbers(box.outbox.nextShipment())).toEqual([1]);
});

test.each([1, 2])(
  'a file of format %i is refused by name, with advice, and stays unchanged',
  async (format) => {
    const db = openDatabase(path, { durability: 'normal' });
    db.pragma(`user_version = ${format}`);
    db.close();
    expect(() => boxOf()).toThrow(
      /outbox\.db was written by an earlier version .*; start the version that wrote/,
    );
    expect(readdirSync(folder)).toEqual(['outbox.db']);
  },
);

type Step = 'record' | 'append' | 'ship' | 'restart' | 'again';

test('in any order of events, each recorded row is shipped, and numbers have no gap', async () => {
  const step = fc.constantFrom<Step>('record', 'record', 'append', 'ship', 'restart', 'again');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
      let box = boxOf();
      let recorded = 0;
      const shipped = new Map<string, Set<number>>();
      const ship = (shipment: Shipment | undefined): void => {
        if (!shipment) return;
        const seen = shipped.get(shipment.incarnation) ?? new Set();
        for (const n of numbers(shipment)) {
          expect(n === 1 || seen.has(n - 1)).toBe(true);
          seen.add(n);
        }
        shipped.set(shipment.incarnation, seen);
        box.outbox.markShipped(shipment);
      };
      const take: Record<Step, () => void | Promise<void>> = {
        record: () => {
          recorded += 2;
          return box.record(usageRow(), usageRow());
        },
        append: () => {
          recorded++;
          return box.append(usageRow());
        },
        ship: () => ship(box.outbox.nextShipment()),
        again: () => void box.outbox.reship(box.outbox.incarnation, 1),
        restart: async () => {
          await box.close();
          box = boxOf();
        },
      };
      for (const each of steps) await take[each]();
      box.flush();
      while (box.outbox.unshipped > 0) ship(box.outbox.nextShipment());
      expect([...shipped.values()].reduce((sum, { size }) => sum + size, 0)).toBe(recorded);
      expect(errors).toEqual([]);
      for (const each of open.splice(0)) await each.close();
    }),
    { numRuns: 40 },
  );
});
