/** What a build before the log of rows left: rows in `outbox.db`, and groups in its spool. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { usageRow, usageText } from '../../test/support/usage-rows.ts';
import { adoptEarlierSpool } from './adopt-spool.ts';
import { earlierRowsSql } from './earlier-rows.ts';
import { type Outbox, openOutbox } from './outbox.ts';
import { ledgerSql } from './outbox-ledger.ts';

const databaseId = '11111111-1111-4111-8111-111111111111';
const [older, last] = ['22222222-2222-4222-8222-222222222222', '33333333-3333-4333-8333-333333333333'];
let folder: string;
let clockMs = 0;
const path = (): string => join(folder, 'outbox.db');
const errors: string[] = [];
const open: Outbox[] = [];

/** Two rows of an earlier process, of which one is shipped, and one of the last one, which took four groups of its spool. */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-earlier-'));
  errors.length = 0;
  clockMs = Date.UTC(2026, 10, 21, 10);
  const db = openDatabase(path(), { durability: 'normal' });
  const spoolSql =
    'CREATE TABLE spool (id TEXT NOT NULL, taken INTEGER NOT NULL, incarnation TEXT NOT NULL, next_n INTEGER NOT NULL) STRICT;';
  db.exec(`${earlierRowsSql} ${ledgerSql} ${spoolSql} PRAGMA user_version = 2;`);
  db.exec(`INSERT INTO spool VALUES ('${databaseId}', 4, '${last}', 2);
    INSERT INTO incarnation VALUES (1, '${older}'), (2, '${last}');
    INSERT INTO row VALUES (1, 1, '{"n":1}'), (1, 2, '{"n":2}'), (2, 1, '{"n":1}');
    INSERT INTO shipment VALUES (1, 1, 1, ${clockMs});
    INSERT INTO replica (id) VALUES ('44444444-4444-4444-8444-444444444444');
    INSERT INTO counter VALUES ('44444444-4444-4444-8444-444444444444', 'acme', '2026-11-01', 21, 3, ${clockMs});`);
  db.close();
});
afterEach(() => {
  for (const each of open.splice(0)) each.close();
  rmSync(folder, { recursive: true });
});

async function start(): Promise<Outbox> {
  const onError = ({ message }: Error): void => void errors.push(message);
  const outbox = openOutbox({ path: path(), now: () => clockMs, onError });
  open.push(outbox);
  await adoptEarlierSpool(outbox, path()).catch(onError);
  return outbox;
}
function group(number: number, incarnation: string, requestId: string, database = databaseId): string {
  const rows = usageText(usageRow({ requestId }));
  const named = `${database} ${incarnation} ${number} 1\n`;
  return `\nheadgate-spool-1 ${crc32(rows, crc32(named))} ${named}${rows}`;
}
function writeSpool(name: string, ...groups: readonly string[]): void {
  writeFileSync(join(folder, name), `${groups.join('')}\nheadgate-spool-end\n${'\0'.repeat(5000)}`);
}
/** What is shipped: incarnation, and numbers. */
function shipAll(outbox: Outbox): [string, number[]][] {
  const shipped: [string, number[]][] = [];
  for (let next = outbox.nextShipment(); next; next = outbox.nextShipment()) {
    shipped.push([next.incarnation, next.bodies.map((body) => JSON.parse(body).n)]);
    outbox.markShipped(next);
  }
  return shipped;
}

test('rows of the database are shipped under their own numbers, and what was counted stays counted', async () => {
  const outbox = await start();
  expect(outbox.unshipped).toBe(2);
  expect(shipAll(outbox)).toEqual([
    [older, [2]],
    [last, [1]],
  ]);
  expect(outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  outbox.close();
  const again = await start();
  expect([shipAll(again), again.unshipped, errors]).toEqual([[], 0, []]);
  expect(again.reship(older, 2)).toBe(true);
  expect(shipAll(again)).toEqual([[older, [2]]]);
});

test('groups of the spool continue the numbers of their process, and count once, however often it starts', async () => {
  writeSpool('outbox.spool', group(5, last, 'e'), group(6, last, 'f'));
  writeSpool('outbox-2.spool', group(4, last, 'd'), group(7, last, 'g'));
  const outbox = await start();
  expect(outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 42, turns: 6 });
  expect(readdirSync(folder).filter((name) => name.includes('spool'))).toEqual([]);
  outbox.close();
  // As if it had ended before the files were removed.
  writeSpool('outbox.spool', group(5, last, 'e'), group(6, last, 'f'));
  const again = await start();
  expect(again.ledger.get('acme 2026-11-01')).toEqual({ tokens: 42, turns: 6 });
  expect(shipAll(again)).toEqual([
    [older, [2]],
    [last, [1]],
    [last, [2, 3, 4]],
  ]);
  expect([again.unshipped, errors]).toEqual([0, []]);
});

test('groups of another process begin at 1, and one that wrote before gets another id', async () => {
  const other = '55555555-5555-4555-8555-555555555555';
  writeSpool('outbox.spool', group(5, other, 'e'), group(6, older, 'f'));
  const outbox = await start();
  const [, , first, second] = shipAll(outbox);
  expect(first).toEqual([other, [1]]);
  expect(second).toEqual([expect.not.stringContaining(older), [1]]);
  expect(second?.[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8/);
});

test('a spool that does not continue its database, or is of another, is kept and not billed', async () => {
  writeSpool('outbox.spool', group(6, last, 'f'));
  const outbox = await start();
  expect(outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  expect(errors).toEqual([expect.stringMatching(/not billed: .*outbox\.spool\.damaged-\d+$/)]);
  outbox.close();
  writeSpool('outbox-2.spool', group(5, last, 'e', older), group(6, last, 'f'));
  const again = await start();
  expect(again.ledger.get('acme 2026-11-01')).toEqual({ tokens: 28, turns: 4 });
  expect(errors[1]).toMatch(/outbox-2\.spool\.damaged-\d+$/);
  expect(existsSync(join(folder, 'outbox-2.spool'))).toBe(false);
});

test('rows are removed a day after the usage log acknowledged them', async () => {
  const outbox = await start();
  shipAll(outbox);
  clockMs += 25 * 3600 * 1000;
  writeSpool('outbox.spool', group(5, last, 'e'));
  await adoptEarlierSpool(outbox, path());
  expect(outbox.file.earlier.ids).toEqual([]);
  expect(outbox.reship(older, 1)).toBe(false);
});
