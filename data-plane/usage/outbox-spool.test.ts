import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { runs } from '../../test/support/budget.ts';
import { until } from '../../test/support/until.ts';
import { usageGroup, usageRow } from '../../test/support/usage-rows.ts';
import { type Outbox, type OutboxOptions, openOutbox } from './outbox.ts';
import type { RecordedUsage } from './rows.ts';

let folder: string;
const errors: string[] = [];
const open: Outbox[] = [];
const path = (): string => join(folder, 'outbox.db');
const spool = (): string => join(folder, 'outbox.spool');

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-spool-'));
  errors.length = 0;
});
afterEach(() => {
  for (const each of open.splice(0)) each.close();
  rmSync(folder, { recursive: true });
});

function outbox(options: Partial<OutboxOptions> = {}): Outbox {
  const opened = openOutbox({ path: path(), onError: ({ message }) => errors.push(message), ...options });
  open.push(opened);
  return opened;
}
function append(box: Outbox, ...rows: readonly RecordedUsage[]): void {
  box.append(usageGroup(...rows));
}
/** The requests in the database, by incarnation. */
function written(): string[] {
  const db = openDatabase(path(), { durability: 'normal', readOnly: true });
  const ids = db.prepare(`SELECT body ->> 'requestId' FROM row ORDER BY ordinal, n`).pluck().all();
  db.close();
  return ids as string[];
}
/** What a process would leave that ends now: its files as they are. What it does afterwards is lost. */
function crashed(box: Outbox): void {
  const files = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  open.splice(open.indexOf(box), 1);
  box.close();
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
}

test('rows that arrived, and are not in the database, are there after a crash, once, with what they count', () => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
  append(first, usageRow({ requestId: 'c' }));
  expect(written()).toEqual([]);
  crashed(first);
  const second = outbox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(statSync(spool()).size).toBe(0);
  expect(second.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  expect(second.nextShipment()).toMatchObject({ incarnation: { id: first.incarnation }, firstN: 1 });
  expect(second.unshipped).toBe(3);
  crashed(second);
  outbox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(errors).toEqual([]);
});

test('after a crash between the commit and the emptied spool nothing counts twice, rows without a number neither', () => {
  const visit = { organisation: null, period: null, visitor: 'v-1', network: 'n-1' };
  const first = outbox();
  append(
    first,
    usageRow({ requestId: 'a' }),
    usageRow({ requestId: 'stopped', ...visit, unfinished: true }),
    usageRow({ requestId: 'b', ...visit }),
  );
  const before = readFileSync(spool());
  first.flush();
  expect(statSync(spool()).size).toBe(0);
  writeFileSync(spool(), before);
  append(first, usageRow({ requestId: 'c' }));
  crashed(first);
  const second = outbox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(second.ledger.get('visitor:n-1 2026-11-21')).toEqual({ tokens: 14, turns: 2 });
  expect(second.ledger.get('visitors:all 2026-11-21')).toEqual({ tokens: 14, turns: 1 });
  expect(second.ledger.get('acme 2026-11-01')).toEqual({ tokens: 14, turns: 2 });
  expect(errors).toEqual([]);
});

test('a database that stays locked loses nothing: what waited is in the spool after a crash', () => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }));
  first.flush();
  const db = openDatabase(path(), { durability: 'normal' });
  db.exec(`CREATE TRIGGER sabotage BEFORE INSERT ON row BEGIN SELECT raise(ABORT, 'no room'); END`);
  append(first, usageRow({ requestId: 'b' }));
  expect(first.flush()).toBe(false);
  append(first, usageRow({ requestId: 'c' }));
  expect(first.queued('acme', '2026-11-01')).toEqual({ tokens: 7, turns: 1 });
  db.exec('DROP TRIGGER sabotage');
  db.close();
  crashed(first);
  const second = outbox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(second.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
});

test('a start with a database that cannot be written keeps the spool, and its rows are written later, once', async () => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }));
  const left = readFileSync(spool());
  first.close();
  const db = openDatabase(path(), { durability: 'normal' });
  db.exec(`DELETE FROM row; UPDATE spool SET taken = 0;
    CREATE TRIGGER sabotage BEFORE INSERT ON row BEGIN SELECT raise(ABORT, 'no room'); END`);
  writeFileSync(spool(), left);
  const second = outbox();
  append(second, usageRow({ requestId: 'b' }));
  expect([second.isFull, second.unwritten, errors]).toEqual([true, 2, ['no room']]);
  const durable = new Promise<void>((resolve) => second.setOnDurable(resolve));
  db.exec('DROP TRIGGER sabotage');
  db.close();
  await durable;
  crashed(second);
  outbox();
  expect(written()).toEqual(['a', 'b']);
});

test('the spool of a deleted database is not billed: nobody knows what was', () => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }));
  const left = readFileSync(spool());
  first.close();
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  writeFileSync(spool(), left);
  outbox();
  expect(written()).toEqual([]);
  const [kept = ''] = readdirSync(folder).filter((name) => name.startsWith('outbox.spool.damaged-'));
  expect(readFileSync(join(folder, kept))).toEqual(left);
  expect(errors).toEqual([expect.stringMatching(`parts of the spool .*${kept}`)]);
});

test.each<[damage: string, change: (whole: Buffer) => Buffer, kept: string[]]>([
  ['a cut last line', (whole) => whole.subarray(0, -20), ['a', 'b']],
  ['zeros at the end', (whole) => whole.fill(0, whole.length - 100), ['a', 'b']],
  ['zeros in the middle', (whole) => whole.fill(0, 200, 300), ['c', 'd']],
  ['only zeros', (whole) => whole.fill(0), []],
  ['another text', () => Buffer.from('{"v":1}\n[]\n\n\u0000'), []],
  ['a group twice', (whole) => Buffer.concat([whole, whole]), ['a', 'b', 'c', 'd']],
  ['other tokens', (whole) => Buffer.from(whole.toString().replace('Tokens":3', 'Tokens":9')), ['c', 'd']],
])('of a spool with %s, whole groups are billed once, and the start continues', (damage, change, kept) => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
  append(first, usageRow({ requestId: 'c' }), usageRow({ requestId: 'd' }));
  writeFileSync(spool(), change(readFileSync(spool())));
  crashed(first);
  const second = outbox();
  expect(written()).toEqual(kept);
  const isWhole = damage === 'a group twice';
  expect(errors).toHaveLength(isWhole ? 0 : 1);
  expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toHaveLength(isWhole ? 0 : 1);
  append(second, usageRow({ requestId: 'later' }));
  crashed(second);
  outbox();
  expect(written()).toEqual([...kept, 'later']);
});

test('a spool that cannot be written is reported once a second, and each group is in the database at once', () => {
  const box = outbox();
  append(box, usageRow({ requestId: 'first' }));
  rmSync(spool());
  box.flush();
  mkdirSync(spool());
  append(box, usageRow({ requestId: 'a' }));
  append(box, usageRow({ requestId: 'b' }));
  expect(written()).toEqual(['first', 'a', 'b']);
  expect(errors).toEqual([expect.stringContaining('EISDIR')]);
});

test.each<[what: string, make: () => void]>([
  ['is a folder', () => mkdirSync(spool())],
  ['is too large', () => writeFileSync(spool(), Buffer.alloc(17 * 1024 * 1024, 'x'))],
])('a spool that %s is moved away and reported, and does not take later rows with it', (_what, make) => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }));
  crashed(first);
  rmSync(spool());
  make();
  const second = outbox();
  expect(errors).toEqual([expect.stringContaining('cannot be read and is not billed')]);
  const [kept = ''] = readdirSync(folder).filter((name) => name.includes('damaged'));
  expect(errors[0]).toContain(kept);
  rmSync(join(folder, kept), { recursive: true });
  append(second, usageRow({ requestId: 'b' }));
  crashed(second);
  outbox();
  expect(written()).toEqual(['b']);
});

test('two copies of a folder give the rows of its spool the same numbers', () => {
  const first = outbox();
  append(first, usageRow({ requestId: 'a' }));
  first.flush();
  append(first, usageRow({ requestId: 'b' }), usageRow({ requestId: 'c' }));
  const files = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))] as const);
  first.flush();
  const shipment = first.nextShipment();
  expect(shipment?.bodies).toHaveLength(3);
  first.close();
  open.splice(open.indexOf(first), 1);
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  const copy = outbox();
  expect(copy.nextShipment()).toMatchObject({ firstN: 1, bodies: shipment?.bodies });
  append(copy, usageRow({ requestId: 'd' }));
  crashed(copy);
  outbox();
  expect(written()).toEqual(['a', 'b', 'c', 'd']);
  expect(errors).toEqual([]);
});

test('rows that no file takes are counted and reported at the end', () => {
  const box = outbox();
  append(box, usageRow({ requestId: 'first' }));
  rmSync(spool());
  box.flush();
  mkdirSync(spool());
  const db = openDatabase(path(), { durability: 'normal' });
  db.exec(`CREATE TRIGGER sabotage BEFORE INSERT ON row BEGIN SELECT raise(ABORT, 'no room'); END`);
  append(box, usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
  box.close();
  db.close();
  expect(box.dropped).toBe(2);
  expect(errors.at(-1)).toContain('2 rows of usage could be written to no file');
});

test('a spool that is removed while it is used is made again with the next transaction', () => {
  const box = outbox();
  append(box, usageRow({ requestId: 'a' }));
  rmSync(spool());
  box.flush();
  expect(existsSync(spool())).toBe(false);
  append(box, usageRow({ requestId: 'b' }));
  crashed(box);
  outbox();
  expect(written()).toEqual(['a', 'b']);
});

test('an outbox that is closed leaves an empty spool', () => {
  const box = outbox();
  append(box, usageRow({ requestId: 'a' }));
  box.close();
  expect(statSync(spool()).size).toBe(0);
});

test('an urgent group, and one that fills a record, is in the database on return, others soon', async () => {
  const box = outbox();
  box.append(usageGroup(usageRow({ requestId: 'a' })), true);
  expect(written()).toEqual(['a']);
  append(box, usageRow({ requestId: 'b' }));
  expect(written()).toEqual(['a']);
  append(box, ...Array.from({ length: 499 }, (_, index) => usageRow({ requestId: `r-${index}` })));
  expect(written()).toHaveLength(501);
  append(box, usageRow({ requestId: 'c' }));
  await until(() => written().length === 502);
});

type Step = 'append' | 'visit' | 'flush' | 'crash' | 'restore' | 'ship';

test('wherever it crashes, and whatever old spool comes back, each row is in the database once', () => {
  const step = fc.constantFrom<Step>('append', 'append', 'visit', 'flush', 'crash', 'restore', 'ship');
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      for (const name of readdirSync(folder)) rmSync(join(folder, name));
      let box = outbox();
      let [rows, stopped] = [0, 0];
      let old: Buffer | undefined;
      const take: Record<Step, () => void> = {
        append: () => {
          append(box, usageRow({ requestId: `r-${++rows}` }), usageRow({ requestId: `r-${++rows}` }));
          old = readFileSync(spool());
        },
        visit: () => {
          const visitor = { organisation: null, period: null, visitor: 'v', unfinished: true } as const;
          append(box, usageRow({ requestId: `s-${++stopped}`, ...visitor }));
        },
        flush: () => box.flush(),
        ship: () => {
          const next = box.nextShipment();
          if (next) box.markShipped(next);
        },
        crash: () => {
          crashed(box);
          box = outbox();
        },
        restore: () => {
          box.flush();
          crashed(box);
          if (old) writeFileSync(spool(), old);
          box = outbox();
        },
      };
      for (const each of steps) take[each]();
      box.flush();
      expect(written().sort()).toEqual(Array.from({ length: rows }, (_, index) => `r-${index + 1}`).sort());
      expect(box.ledger.get('acme 2026-11-01')?.turns ?? 0).toBe(rows);
      expect(box.ledger.get('visitors:all 2026-11-21')?.tokens ?? 0).toBe(7 * stopped);
      expect(errors).toEqual([]);
      for (const each of open.splice(0)) each.close();
    }),
    { numRuns: runs({ fast: 6, full: 60 }) },
  );
});
