import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { usageGroup, usageRow } from '../../test/support/usage-rows.ts';
import { type Outbox, type OutboxOptions, openOutbox, type Shipment } from './outbox.ts';
import type { RecordedUsage } from './rows.ts';

let folder: string;
let path: string;
let clockMs: number;
const errors: string[] = [];
const open: Outbox[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-outbox-'));
  path = join(folder, 'outbox.db');
  clockMs = Date.parse('2026-11-21T10:00:00.000Z');
  errors.length = 0;
});
afterEach(() => {
  for (const each of open.splice(0)) each.close();
  rmSync(folder, { recursive: true });
});

function outbox(options: Partial<OutboxOptions> = {}): Outbox {
  const opened = openOutbox({
    path,
    now: () => clockMs,
    onError: (error) => errors.push(error.message),
    ...options,
  });
  open.push(opened);
  return opened;
}
/** As a group of its own. */
function record(box: Outbox, row: RecordedUsage): void {
  box.append(usageGroup(row));
}
function numbers(shipment: Shipment | undefined): number[] {
  return (shipment?.bodies ?? []).map((body) => JSON.parse(body).n);
}
/** Ships all rows; returns the numbers by incarnation. */
function shipAll(box: Outbox): Map<string, number[]> {
  const shipped = new Map<string, number[]>();
  for (let next = box.nextShipment(); next; next = box.nextShipment()) {
    shipped.set(next.incarnation.id, [...(shipped.get(next.incarnation.id) ?? []), ...numbers(next)]);
    box.markShipped(next);
  }
  return shipped;
}
function rowsInFile(): number {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  const count = db.prepare('SELECT count(*) FROM row').pluck().get() as number;
  db.close();
  return count;
}
/** Makes each insert fail until the returned function is called. */
function sabotage(): () => void {
  const db = openDatabase(path, { durability: 'normal' });
  db.exec(`CREATE TRIGGER sabotage BEFORE INSERT ON row BEGIN SELECT raise(ABORT, 'no room'); END`);
  return () => {
    db.exec('DROP TRIGGER sabotage');
    db.close();
  };
}

test('a row is in the database on return, with its number and incarnation', () => {
  const box = outbox();
  record(box, usageRow());
  expect([box.unshipped, box.unwritten]).toEqual([1, 0]);
  expect(JSON.parse(box.nextShipment()!.bodies[0]!)).toEqual({
    v: 1,
    incarnation: box.incarnation,
    n: 1,
    replica: box.ledger.replica,
    ...usageRow(),
  });
});

test('rows that arrive together share one transaction', () => {
  const box = outbox();
  let transactions = 0;
  box.setOnDurable(() => {
    transactions++;
  });
  box.append(usageGroup(...Array.from({ length: 450 }, () => usageRow())));
  expect(transactions).toBe(1);
  expect(shipAll(box).get(box.incarnation)).toEqual(Array.from({ length: 450 }, (_, index) => index + 1));
  expect(box.unshipped).toBe(0);
});

test('an invalid row is refused and reported, uses no number, and its values are not in the error', () => {
  const box = outbox();
  record(box, usageRow({ model: 'secret prompt text' }));
  record(box, usageRow({ promptTokens: Number.NaN }));
  record(box, usageRow());
  box.flush();
  expect(numbers(box.nextShipment())).toEqual([1]);
  expect(box.dropped).toBe(2);
  expect(errors).toEqual(['a row of usage is invalid at model', 'a row of usage is invalid at promptTokens']);
});

test('each start has its own incarnation, and older rows ship first, under theirs', () => {
  const first = outbox();
  record(first, usageRow());
  record(first, usageRow());
  first.close();
  const second = outbox();
  record(second, usageRow());
  second.flush();
  expect(second.incarnation).not.toBe(first.incarnation);
  expect([...shipAll(second)]).toEqual([
    [first.incarnation, [1, 2]],
    [second.incarnation, [1]],
  ]);
});

test('a deleted outbox begins a new incarnation at 1', () => {
  const first = outbox();
  record(first, usageRow());
  first.close();
  rmSync(path);
  const second = outbox();
  record(second, usageRow());
  second.flush();
  expect([...shipAll(second)]).toEqual([[second.incarnation, [1]]]);
});

test('shipped rows stay shipped after a restart, and are shipped again where that was not written', () => {
  const first = outbox();
  for (let count = 0; count < 3; count++) record(first, usageRow());
  first.flush();
  const shipment = first.nextShipment()!;
  first.markShipped({ ...shipment, bodies: shipment.bodies.slice(0, 2) });
  first.close();
  const second = outbox();
  expect(numbers(second.nextShipment())).toEqual([3]);
  expect(second.unshipped).toBe(1);
});

test('an acknowledgement of another part of the rows changes nothing', () => {
  const box = outbox();
  for (let count = 0; count < 3; count++) record(box, usageRow());
  box.flush();
  const shipment = box.nextShipment()!;
  box.markShipped({ ...shipment, firstN: 2 });
  expect(numbers(box.nextShipment())).toEqual([1, 2, 3]);
  box.markShipped(shipment);
  box.markShipped(shipment);
  expect(box.unshipped).toBe(0);
});

test('rows are kept for a day after the log acknowledged them, then removed with past incarnations', () => {
  const first = outbox();
  record(first, usageRow());
  first.close();
  const box = outbox();
  record(box, usageRow());
  box.flush();
  shipAll(box);
  box.flush();
  clockMs += 24 * 3600 * 1000;
  record(box, usageRow());
  box.flush();
  expect(rowsInFile()).toBe(3);
  clockMs += 1;
  record(box, usageRow());
  box.flush();
  expect(rowsInFile()).toBe(2);
  expect(box.incarnations()).toEqual([box.incarnation]);
  expect(shipAll(box).get(box.incarnation)).toEqual([2, 3]);
});

test('shipped rows are removed for new ones where the file holds too many', () => {
  const box = outbox({ rowsMax: 150 });
  for (let round = 0; round < 6; round++) {
    for (let count = 0; count < 100; count++) record(box, usageRow());
    box.flush();
    shipAll(box);
    box.flush();
  }
  expect(rowsInFile()).toBeLessThanOrEqual(150);
  expect(rowsInFile()).toBeGreaterThanOrEqual(100);
  expect(box.isFull).toBe(false);
});

test('the outbox is full while it holds as many unshipped rows as it may', () => {
  const box = outbox({ rowsMax: 3 });
  record(box, usageRow());
  record(box, usageRow());
  expect(box.isFull).toBe(false);
  record(box, usageRow());
  expect(box.isFull).toBe(true);
  box.flush();
  expect(box.isFull).toBe(true);
  shipAll(box);
  expect(box.isFull).toBe(false);
});

test('a disk that cannot be written fails no request: rows wait, it is full until they are written, numbers have no gap', async () => {
  const box = outbox({ queueRowsMax: 3 });
  const repair = sabotage();
  record(box, usageRow());
  expect([box.isFull, box.failures, errors]).toEqual([true, 1, ['no room']]);
  record(box, usageRow());
  record(box, usageRow());
  record(box, usageRow());
  expect(box.dropped).toBe(1);
  expect(box.nextShipment()).toBeUndefined();
  const durable = new Promise<void>((resolve) => box.setOnDurable(resolve));
  repair();
  await durable;
  expect(box.isFull).toBe(false);
  record(box, usageRow());
  box.flush();
  expect(shipAll(box).get(box.incarnation)).toEqual([1, 2, 3, 4]);
});

test('a failed write is retried without a further row', async () => {
  const box = outbox();
  const repair = sabotage();
  record(box, usageRow());
  expect(box.flush()).toBe(false);
  const durable = new Promise<void>((resolve) => box.setOnDurable(resolve));
  repair();
  await durable;
  expect(numbers(box.nextShipment())).toEqual([1]);
});

test('rows no longer in the file cannot be shipped again, and do not count as unshipped', () => {
  const box = outbox();
  record(box, usageRow());
  box.flush();
  shipAll(box);
  box.flush();
  clockMs += 25 * 3600 * 1000;
  record(box, usageRow());
  box.flush();
  expect(rowsInFile()).toBe(1);
  expect(box.reship(box.incarnation, 1)).toBe(false);
  box.close();
  const after = outbox();
  expect(after.unshipped).toBe(1);
  expect(numbers(after.nextShipment())).toEqual([2]);
});

test('rows to be shipped again are shipped again after a restart, too', () => {
  const box = outbox();
  for (let count = 0; count < 5; count++) record(box, usageRow());
  box.flush();
  shipAll(box);
  box.reship(box.incarnation, 4);
  box.close();
  expect(shipAll(outbox()).get(box.incarnation)).toEqual(expect.arrayContaining([4, 5]));
});

test('rows that the log lost are shipped again while they are in the file', () => {
  const box = outbox();
  for (let count = 0; count < 5; count++) record(box, usageRow());
  box.flush();
  shipAll(box);
  expect(box.reship(box.incarnation, 6)).toBe(false);
  expect(box.reship('of-another-gateway', 1)).toBe(false);
  expect(box.reship(box.incarnation, 4)).toBe(true);
  expect(box.unshipped).toBe(2);
  expect(shipAll(box).get(box.incarnation)).toEqual([4, 5]);
  box.close();
  const after = outbox();
  expect(after.unshipped).toBe(0);
});

test('what rows add to the counters changes with them, and is the same after a restart', () => {
  const first = outbox();
  const taken: unknown[] = [];
  first.setOnTaken((entries) => taken.push(...entries, first.queued('acme', '2026-11-01')));
  first.append(usageGroup(usageRow(), usageRow(), usageRow(), usageRow({ draw: 'own' })));
  expect(taken).toEqual([['acme', '2026-11-01', 21, 3], { tokens: 21, turns: 3 }]);
  expect(first.queued('acme', '2026-11-01')).toEqual({ tokens: 0, turns: 0 });
  record(first, usageRow({ organisation: null, period: null, visitor: 'v1' }));
  first.close();
  const box = outbox();
  expect([...box.ledger.entries()].sort()).toEqual([
    ['acme', '2026-11-01', 21, 3],
    ['visitor:v1', '2026-11', 7, 1],
    ['visitors:all', '2026-11-21', 7, 1],
  ]);
  expect(box.ledger.replica).toBe(first.ledger.replica);
  expect([first.incarnation, box.incarnation].every((id) => box.ledger.isOwnProcess(id))).toBe(true);
});

test('a new replica id begins at zero, and what was counted before is kept under the old one', () => {
  const first = outbox();
  record(first, usageRow());
  first.flush();
  const old = first.ledger.replica;
  first.ledger.renew();
  record(first, usageRow());
  first.close();
  const { ledger } = outbox();
  expect(ledger.replica).not.toBe(old);
  expect(ledger.get('acme 2026-11-01')).toEqual({ tokens: 7, turns: 1 });
  expect(ledger.former()).toEqual([{ replica: old, entries: [['acme', '2026-11-01', 7, 1]] }]);
});

test('the folder keeps its latest 10 000 visitors, and entries until 33 days after their period began', () => {
  const box = outbox({ queueRowsMax: 20_000 });
  const rows = Array.from({ length: 11_500 }, (_, n) =>
    usageRow({ organisation: null, period: null, visitor: `v${n % 11_400}` }),
  );
  // A transaction that waits for the disk is one for each group.
  for (let from = 0; from < rows.length; from += 100) box.append(usageGroup(...rows.slice(from, from + 100)));
  box.flush();
  record(box, usageRow());
  box.close();
  const keys = [...outbox().ledger.entries()].map(([subject]) => subject);
  const visitors = keys.filter((subject) => subject.startsWith('visitor:'));
  expect(visitors.length).toBeLessThanOrEqual(11_500);
  clockMs = Date.UTC(2026, 11, 4, 0, 0, 1);
  expect([...outbox().ledger.entries()].map(([subject]) => subject)).toEqual(['visitors:all']);
});

test('a folder full of networks keeps its visitors, and a folder full of visitors its networks', () => {
  const box = outbox({ queueRowsMax: 20_000 });
  const few = Array.from({ length: 100 }, (_, n) => n);
  const many = Array.from({ length: 11_500 }, (_, n) => n);
  const turns = (pairs: readonly (readonly [visitor: string, network: string])[]): void => {
    const rows = pairs.map(([visitor, network]) =>
      usageRow({ organisation: null, period: null, visitor, network }),
    );
    box.append(usageGroup(...rows));
    box.flush();
    clockMs++;
  };
  const kept = (box: Outbox, prefix: string): number =>
    [...box.ledger.entries()].filter(([subject]) => subject.startsWith(`visitor:${prefix}`)).length;
  turns(few.map((n) => [`v-few-${n}`, 'n-busy']));
  turns(many.map((n) => ['v-busy', `n-many-${n}`]));
  expect([kept(box, 'v-few'), kept(box, 'n-')]).toEqual([100, 10_000]);
  turns(few.map((n) => ['v-busy', `n-few-${n}`]));
  turns(many.map((n) => [`v-many-${n}`, 'n-busy']));
  turns([['v-busy', 'n-busy']]);
  expect([kept(box, 'n-few'), kept(box, 'v-')]).toEqual([100, 10_001]);
  box.close();
  const after = outbox();
  expect(kept(after, 'n-few')).toBe(100);
});

test('what has ended is removed with the first row of a new day, without a restart', () => {
  const box = outbox();
  const turn = (at: string, network: string) =>
    record(box, usageRow({ at, organisation: null, period: null, visitor: 'v-1', network }));
  turn('2026-11-21T10:00:00.000Z', 'n-1');
  box.flush();
  clockMs = Date.UTC(2026, 11, 24, 0, 0, 1);
  turn('2026-12-24T00:00:01.000Z', 'n-2');
  box.flush();
  const kept = [
    ['visitor:n-2', '2026-12-24', 7, 1],
    ['visitor:v-1', '2026-12', 7, 1],
    ['visitors:all', '2026-12-24', 7, 1],
  ];
  expect([...box.ledger.entries()].sort()).toEqual(kept);
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  expect(db.prepare('SELECT subject, period FROM counter ORDER BY subject').raw().all()).toEqual(
    kept.map((entry) => entry.slice(0, 2)),
  );
  db.close();
});

test('what a visitor stopped counts in the periods of its admission, as a turn of its network alone, and is no row', () => {
  clockMs = Date.UTC(2026, 11, 1, 0, 0, 5);
  const first = outbox();
  const visit = { at: '2026-12-01T00:00:05.000Z', organisation: null, period: null, visitor: 'v-1' };
  const turn = { ...visit, network: 'n-1', admittedMs: Date.UTC(2026, 10, 30, 23, 59) };
  record(first, usageRow({ ...turn, unfinished: true }));
  record(first, usageRow(turn));
  record(first, usageRow({ ...turn, unfinished: true }));
  record(first, usageRow({ ...turn, visitor: 'v-2', unfinished: true }));
  first.close();
  const box = outbox();
  expect([...box.ledger.entries()].sort()).toEqual([
    ['visitor:n-1', '2026-11-30', 28, 4],
    ['visitor:v-1', '2026-11', 7, 1],
    ['visitors:all', '2026-11-30', 28, 1],
  ]);
  expect([...shipAll(box).values()]).toEqual([[1]]);
  expect(errors).toEqual([]);
});

test('a damaged outbox is quarantined and reported, and recording continues in a new one', () => {
  writeFileSync(path, 'x'.repeat(8192));
  const box = outbox();
  expect(errors).toEqual([expect.stringContaining(`${path}.damaged-${clockMs}`)]);
  expect(readdirSync(folder)).toContain(`outbox.db.damaged-${clockMs}`);
  record(box, usageRow());
  expect(box.flush()).toBe(true);
  expect(numbers(box.nextShipment())).toEqual([1]);
});

test('a file of version 0.1 is refused by name, with what to do, and stays as it is', () => {
  const db = openDatabase(path, { durability: 'normal' });
  db.pragma('user_version = 1');
  db.close();
  expect(() => outbox()).toThrow(
    /outbox\.db was written by an earlier version .*; start the version that wrote/,
  );
  expect(readdirSync(folder)).toEqual(['outbox.db']);
});

test('a closed outbox drops rows', () => {
  const box = outbox();
  box.close();
  record(box, usageRow());
  expect(box.dropped).toBe(1);
});

type Step = 'record' | 'flush' | 'ship' | 'restart' | 'day' | 'again';

test('whatever happens in whatever order, each recorded row is shipped, and numbers have no gap', () => {
  const step = fc.constantFrom<Step>(
    'record',
    'record',
    'record',
    'flush',
    'ship',
    'restart',
    'day',
    'again',
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      rmSync(path, { force: true });
      let box = outbox();
      let recorded = 0;
      const shipped = new Map<string, Set<number>>();
      const ship = (shipment: Shipment | undefined): void => {
        if (!shipment) return;
        const seen = shipped.get(shipment.incarnation.id) ?? new Set();
        for (const n of numbers(shipment)) {
          expect(n === 1 || seen.has(n - 1)).toBe(true);
          seen.add(n);
        }
        shipped.set(shipment.incarnation.id, seen);
        box.markShipped(shipment);
      };
      const take: Record<Step, () => void> = {
        record: () => {
          record(box, usageRow());
          recorded++;
        },
        flush: () => box.flush(),
        ship: () => ship(box.nextShipment()),
        day: () => {
          clockMs += 25 * 3600 * 1000;
        },
        again: () => box.reship(box.incarnation, 1),
        restart: () => {
          box.close();
          box = outbox();
        },
      };
      for (const each of steps) take[each]();
      box.flush();
      while (box.unshipped > 0) ship(box.nextShipment());
      expect([...shipped.values()].reduce((sum, { size }) => sum + size, 0)).toBe(recorded);
      for (const each of open.splice(0)) each.close();
    }),
    { numRuns: 40 },
  );
});
