/** Tests which rows a process leaves behind when it ends at any moment, and how the next process reads them. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { runs } from '../../test/support/budget.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { UsageBox, usageRow } from '../../test/support/usage-rows.ts';
import { SegmentReader } from './segment-reader.ts';

let root: string;
let folder: string;
const errors: string[] = [];
const open: UsageBox[] = [];
const usage = (): string => join(folder, 'usage');

beforeEach(() => {
  root = folderOfTest('usage-log');
  folder = join(root, 'now');
  mkdirSync(folder);
  errors.length = 0;
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function openBox(): UsageBox {
  const onError = ({ message }: Error): void => void errors.push(message);
  const box = new UsageBox({ path: join(folder, 'outbox.db'), onError });
  open.push(box);
  return box;
}
/** Keeps the files as they are now, as a crash would. Everything that the process does afterwards is lost. */
async function crashed(box: UsageBox): Promise<void> {
  cpSync(folder, join(root, 'left'), { recursive: true });
  open.splice(open.indexOf(box), 1);
  await box.close();
  rmSync(folder, { recursive: true });
  cpSync(join(root, 'left'), folder, { recursive: true });
  rmSync(join(root, 'left'), { recursive: true });
}
/** Returns the request ids of all rows that can be published, from the first one on. */
function all({ outbox }: UsageBox): string[] {
  const requests: string[] = [];
  for (let next = outbox.nextShipment(); next; next = outbox.nextShipment()) {
    for (const body of next.bodies) requests.push(JSON.parse(body).requestId);
    outbox.markShipped(next);
  }
  return requests;
}
function segment(nth = 0): string {
  const names = readdirSync(usage()).filter((name) => name.endsWith('.records'));
  return join(usage(), names.sort()[nth] ?? '');
}
/** Returns the part of a segment that has been written. */
function content(path: string): Buffer {
  const bytes = readFileSync(path);
  return bytes.subarray(0, bytes.findLastIndex((byte) => byte !== 0) + 1);
}
const kept = (): string[] => readdirSync(usage()).filter((name) => name.includes('damaged'));

test('rows in the log that were not counted are counted once after a crash, and shipped under their own id', async () => {
  const first = openBox();
  await first.append(usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
  await first.append(usageRow({ requestId: 'c' }));
  expect(first.outbox.ledger.get('acme 2026-11-01')).toBeUndefined();
  await crashed(first);
  const second = openBox();
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  expect(second.outbox.unshipped).toBe(3);
  expect(second.outbox.nextShipment()?.incarnation).toBe(first.outbox.incarnation);
  await crashed(second);
  const third = openBox();
  expect(third.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  expect([all(third), errors]).toEqual([['a', 'b', 'c'], []]);
});

test('a crash after a transaction counts nothing twice, including rows without a number', async () => {
  const visit = { organisation: null, period: null, visitor: 'v-1', network: 'n-1' };
  const first = openBox();
  await first.record(
    usageRow({ requestId: 'a' }),
    usageRow({ requestId: 'stopped', ...visit, unfinished: true }),
    usageRow({ requestId: 'b', ...visit }),
  );
  await first.append(usageRow({ requestId: 'c' }));
  await crashed(first);
  const second = openBox();
  const { ledger } = second.outbox;
  expect(ledger.get('visitor:n-1 2026-11-21')).toEqual({ tokens: 14, turns: 2 });
  expect(ledger.get('visitors:all 2026-11-21')).toEqual({ tokens: 14, turns: 1 });
  expect(ledger.get('acme 2026-11-01')).toEqual({ tokens: 14, turns: 2 });
  expect([all(second), errors]).toEqual([['a', 'b', 'c'], []]);
  expect(second.outbox.unshipped).toBe(0);
});

test('if a power cut undoes the last transactions, their rows count once and keep their numbers', async () => {
  const numbered = ({ outbox }: UsageBox) => outbox.nextShipment()?.bodies.map((body) => JSON.parse(body));
  const database = () => readdirSync(folder).filter((name) => name.startsWith('outbox.db'));
  const first = openBox();
  await first.record(usageRow({ requestId: 'a' }));
  for (const name of database()) cpSync(join(folder, name), join(root, 'before', name));
  await first.record(usageRow({ requestId: 'b' }));
  const shipped = numbered(first);
  await crashed(first);
  for (const name of database()) rmSync(join(folder, name));
  cpSync(join(root, 'before'), folder, { recursive: true });
  const second = openBox();
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 14, turns: 2 });
  expect(numbered(second)).toEqual(shipped);
  expect(errors).toEqual([]);
});

test('each copy of a crashed process’s folder gives rows the numbers that the process would have given', async () => {
  const first = openBox();
  await first.record(usageRow({ requestId: 'a' }));
  await first.append(usageRow({ requestId: 'b' }), usageRow({ requestId: 'c' }));
  cpSync(folder, join(root, 'copy'), { recursive: true });
  first.flush();
  const shipment = first.outbox.nextShipment();
  await first.close();
  open.splice(open.indexOf(first), 1);
  folder = join(root, 'copy');
  const copy = openBox();
  expect(copy.outbox.nextShipment()?.bodies).toEqual(shipment?.bodies);
  expect(shipment?.bodies).toHaveLength(3);
});

test('the log of a deleted database is not billed, because nobody knows what was billed', async () => {
  const first = openBox();
  await first.append(usageRow({ requestId: 'a' }));
  await crashed(first);
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(folder, `outbox.db${suffix}`), { force: true });
  const second = openBox();
  expect([all(second), kept()]).toEqual([[], [expect.stringContaining('.records.damaged-')]]);
  expect(readFileSync(join(usage(), kept()[0] ?? '')).includes('"requestId":"a"')).toBe(true);
  expect(errors).toEqual([expect.stringContaining(kept()[0] ?? '')]);
});

test('a database older than its log bills nothing of the difference, and reports where the log is kept', async () => {
  const first = openBox();
  await first.record(usageRow({ requestId: 'a' }));
  cpSync(folder, join(root, 'older'), { recursive: true });
  await first.record(usageRow({ requestId: 'b' }));
  await first.close();
  open.splice(open.indexOf(first), 1);
  const second = openBox();
  await second.append(usageRow({ requestId: 'c' }));
  await crashed(second);
  rmSync(segment(0));
  for (const name of readdirSync(folder)) if (name.startsWith('outbox.db')) rmSync(join(folder, name));
  for (const name of readdirSync(join(root, 'older')))
    if (name.startsWith('outbox.db')) cpSync(join(root, 'older', name), join(folder, name));
  const third = openBox();
  expect(errors).toEqual([expect.stringMatching(/of another database are not billed/)]);
  errors.length = 0;
  await third.record(usageRow({ requestId: 'd' }));
  expect(all(third)).toEqual(['d']);
});

test.each<[damage: string, change: (whole: Buffer) => Buffer, billed: string[]]>([
  ['a cut-off end', (whole) => whole.subarray(0, -20), ['a', 'b']],
  ['zeros at the end', (whole) => Buffer.from(whole).fill(0, whole.length - 100), ['a', 'b']],
  ['other text', () => Buffer.from('{"v":1}\n[]\n\n\u0000'), []],
  ['only zeros', (whole) => Buffer.from(whole).fill(0), []],
  [
    'changed token counts',
    (whole) => Buffer.from(whole.toString('latin1').replace('Tokens":3', 'Tokens":9'), 'latin1'),
    ['c', 'd'],
  ],
])('whole groups of a log with %s are billed once, and the start continues', async (_, change, billed) => {
  const first = openBox();
  await first.append(usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
  await first.append(usageRow({ requestId: 'c' }), usageRow({ requestId: 'd' }));
  await crashed(first);
  writeFileSync(segment(), change(content(segment())));
  const second = openBox();
  expect(errors).toEqual([expect.stringContaining('unreadable parts of the usage log')]);
  expect(kept()).toHaveLength(1);
  await second.record(usageRow({ requestId: 'later' }));
  await crashed(second);
  expect(all(openBox())).toEqual([...billed, 'later']);
});

test('a group that occurs twice counts once', async () => {
  const first = openBox();
  await first.append(usageRow({ requestId: 'a' }));
  await crashed(first);
  const whole = content(segment());
  writeFileSync(segment(), Buffer.concat([whole, whole]));
  const second = openBox();
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 7, turns: 1 });
  expect([all(second), errors]).toEqual([['a'], []]);
});

test.each<[what: string, make: (path: string) => void]>([
  ['is a folder', (path) => mkdirSync(path)],
  ['is a pipe', (path) => execFileSync('mkfifo', [path])],
  ['is too large', (path) => writeFileSync(path, Buffer.alloc(17 * 1024 * 1024, 'x'))],
])('a segment that %s is moved away and reported, and blocks nothing', async (_what, make) => {
  const first = openBox();
  await first.append(usageRow({ requestId: 'a' }));
  await crashed(first);
  const path = segment();
  rmSync(path);
  make(path);
  const second = openBox();
  expect(errors).toEqual([expect.stringContaining(kept()[0] ?? 'none')]);
  await second.record(usageRow({ requestId: 'b' }));
  expect(all(second)).toEqual(['b']);
});

test('a database that stays locked loses nothing: waiting rows are counted after a crash', async () => {
  const first = openBox();
  await first.record(usageRow({ requestId: 'a' }));
  const db = openDatabase(join(folder, 'outbox.db'), { durability: 'normal' });
  db.exec(`CREATE TRIGGER sabotage BEFORE UPDATE ON place BEGIN SELECT raise(ABORT, 'no room'); END`);
  await first.record(usageRow({ requestId: 'b' }));
  expect(first.outbox.isFull).toBe(true);
  await first.append(usageRow({ requestId: 'c' }));
  db.exec('DROP TRIGGER sabotage');
  db.close();
  await crashed(first);
  const second = openBox();
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  expect(all(second)).toEqual(['a', 'b', 'c']);
});

test('if the log is removed under a running process, later rows are counted and shipped', async () => {
  const box = openBox();
  await box.record(usageRow({ requestId: 'r-1' }), usageRow({ requestId: 'r-2' }));
  expect(all(box)).toHaveLength(2);
  rmSync(usage(), { recursive: true });
  // Wait until the outbox has checked that its segment still exists, which it does once a second.
  await new Promise((resolve) => setTimeout(resolve, 1_050));
  await expect(box.record(usageRow({ requestId: 'r-3' }))).rejects.toThrow('removed');
  await box.record(usageRow({ requestId: 'r-3' }), usageRow({ requestId: 'r-4' }));
  expect(all(box)).toEqual(['r-3', 'r-4']);
  expect(box.outbox.unshipped).toBe(0);
});

test('a backlog larger than memory is shipped in order, and numbers have no gap', async () => {
  const box = openBox();
  const rows = Array.from({ length: 700 }, () => usageRow());
  for (let group = 0; group < 20; group++) {
    await box.record(...rows);
    // Publish once in between, so that the remaining rows have a gap.
    for (let next = group === 9 && box.outbox.nextShipment(); next; next = undefined)
      box.outbox.markShipped(next);
  }
  expect(readdirSync(usage()).length).toBeGreaterThan(2);
  const numbers: number[] = [];
  for (let next = box.outbox.nextShipment(); next; next = box.outbox.nextShipment()) {
    numbers.push(...next.bodies.map((body) => JSON.parse(body).n));
    box.outbox.markShipped(next);
  }
  expect(numbers).toEqual(Array.from({ length: 14_000 - 500 }, (_, at) => at + 501));
  expect([box.outbox.unshipped, errors]).toEqual([0, []]);
});

test('a segment reserves its room at the start, and gives up the unused part at the end', async () => {
  const box = openBox();
  await box.log.begin(0);
  expect(statSync(segment()).blocks * 512).toBeGreaterThanOrEqual(2 * 1024 * 1024);
  await box.record(usageRow());
  open.pop();
  await box.close();
  expect(statSync(segment()).size).toBeLessThan(1024);
});

test('day-old segments are removed once the usage log has their rows, and not before', async () => {
  const box = openBox();
  const append = (nowMs: number): Promise<void> =>
    box.log.append(
      {
        count: 1,
        lastMs: 0,
        ids: new Uint8Array(),
        text: new TextEncoder().encode(`${JSON.stringify(usageRow())},\n`),
      },
      nowMs,
    );
  const hourMs = 3600 * 1000;
  await append(0);
  await append(2 * hourMs);
  await append(50 * hourMs);
  const first = () => new SegmentReader(usage(), 0).oldest;
  expect(first()).toBe(0);
  box.flush();
  all(box);
  box.flush();
  await append(52 * hourMs);
  // These rows are kept, because a power cut could still undo the record that they have been published.
  expect(first()).toBe(0);
  box.flush();
  await append(54 * hourMs);
  expect(first()).toBe(2);
  box.flush();
  expect(all(box)).toHaveLength(2);
  expect(errors).toEqual([]);
});

type Step = 'append' | 'visit' | 'flush' | 'crash' | 'ship';

test('wherever the process crashes, each row counts once and is shipped with the same number', async () => {
  const step = fc.constantFrom<Step>('append', 'append', 'visit', 'flush', 'crash', 'ship');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      rmSync(folder, { recursive: true });
      mkdirSync(folder);
      let box = openBox();
      let [rows, stopped] = [0, 0];
      const shipped = new Map<string, string>();
      const ship = (): void => {
        const next = box.outbox.nextShipment();
        for (const body of next?.bodies ?? []) {
          const { incarnation, n, requestId } = JSON.parse(body);
          expect(shipped.get(`${incarnation} ${n}`) ?? requestId).toBe(requestId);
          shipped.set(`${incarnation} ${n}`, requestId);
        }
        if (next) box.outbox.markShipped(next);
      };
      const take: Record<Step, () => unknown> = {
        append: () =>
          box.append(usageRow({ requestId: `r-${++rows}` }), usageRow({ requestId: `r-${++rows}` })),
        visit: () => {
          const visitor = { organisation: null, period: null, visitor: 'v', unfinished: true } as const;
          return box.append(usageRow({ requestId: `s-${++stopped}`, ...visitor }));
        },
        flush: () => box.flush(),
        ship,
        crash: async () => {
          await crashed(box);
          box = openBox();
        },
      };
      for (const each of steps) await take[each]();
      box.flush();
      while (box.outbox.nextShipment() !== undefined) ship();
      expect([...shipped.values()].sort()).toEqual(
        Array.from({ length: rows }, (_, index) => `r-${index + 1}`).sort(),
      );
      expect(box.outbox.ledger.get('acme 2026-11-01')?.turns ?? 0).toBe(rows);
      expect(box.outbox.ledger.get('visitors:all 2026-11-21')?.tokens ?? 0).toBe(7 * stopped);
      expect([box.outbox.unshipped, errors]).toEqual([0, []]);
      for (const each of open.splice(0)) await each.close();
    }),
    { numRuns: runs({ fast: 6, full: 25 }) },
  );
});
