import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { runs } from '../../test/support/budget.ts';
import { usageRow, usageText } from '../../test/support/usage-rows.ts';
import { type Outbox, type OutboxOptions, openOutbox } from './outbox.ts';
import { spoolBytes, spoolEndOf, spoolPathsOf, type UsageGroup } from './outbox-spool.ts';
import type { RecordedUsage } from './rows.ts';
import { SpoolWriter } from './spool-writer.ts';

let folder: string;
const errors: string[] = [];
const open: Box[] = [];
const path = (): string => join(folder, 'outbox.db');
const spool = (): string => join(folder, 'outbox.spool');

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-spool-'));
  errors.length = 0;
});
afterEach(async () => {
  for (const each of open.splice(0)) await close(each);
  rmSync(folder, { recursive: true });
});

/** An outbox with the spool of its process; the outbox gets the groups with `flush`. */
interface Box {
  readonly outbox: Outbox;
  readonly spool: SpoolWriter;
  readonly unsent: UsageGroup[];
}
function openBox(options: Partial<OutboxOptions> = {}): Box {
  const onError = ({ message }: Error): void => {
    errors.push(message);
  };
  const outbox = openOutbox({ path: path(), onError, ...options });
  const box = { outbox, spool: new SpoolWriter({ ...outbox.spoolStart, onError }), unsent: [] };
  open.push(box);
  return box;
}
async function append({ spool: writer, unsent }: Box, ...rows: readonly RecordedUsage[]): Promise<void> {
  const text = usageText(...rows);
  unsent.push({ number: writer.append(text, rows.length), rows: text, count: rows.length });
  await writer.idle();
}
function flush({ outbox, spool: writer, unsent }: Box): void {
  for (const group of unsent.splice(0)) outbox.append(group);
  outbox.flush();
  writer.taken(outbox.groupsTaken);
}
async function close(box: Box): Promise<void> {
  flush(box);
  box.outbox.close();
  await box.spool.close();
}
/** Makes each insert fail until the returned function is called: the places of the next rows are taken. */
function sabotage(): () => void {
  const db = openDatabase(path(), { durability: 'normal' });
  const taken = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)`;
  db.exec(`${taken} INSERT INTO row SELECT o.i, n.i, 'taken' FROM n o, n WHERE true ON CONFLICT DO NOTHING`);
  return () => {
    db.exec(`DELETE FROM row WHERE body = 'taken'`);
    db.close();
  };
}
const noRoom = 'UNIQUE constraint failed: row.ordinal, row.n';
/** The requests in the database, by incarnation. */
function written(): string[] {
  const db = openDatabase(path(), { durability: 'normal', readOnly: true });
  const ids = db.prepare(`SELECT body ->> 'requestId' FROM row ORDER BY ordinal, n`).pluck().all();
  db.close();
  return ids as string[];
}
/** The groups of a file, as bytes, and what is behind them of earlier ones left out. */
function content(of = spool()): Buffer {
  const bytes = readFileSync(of);
  return bytes.subarray(0, spoolEndOf(bytes));
}
/** What a process would leave that ends now: its files as they are. What it does afterwards is lost. */
async function crashed(box: Box): Promise<void> {
  const files = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  open.splice(open.indexOf(box), 1);
  await close(box);
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
}

test('rows that arrived, and are not in the database, are there after a crash, once, with what they count', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
  await append(first, usageRow({ requestId: 'c' }));
  expect(written()).toEqual([]);
  await crashed(first);
  const second = openBox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(content()).toHaveLength(0);
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
  expect(second.outbox.nextShipment()).toMatchObject({
    incarnation: { id: first.outbox.incarnation },
    firstN: 1,
  });
  expect(second.outbox.unshipped).toBe(3);
  await crashed(second);
  openBox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(errors).toEqual([]);
});

test('after a crash between the commit and the emptied spool nothing counts twice, rows without a number neither', async () => {
  const visit = { organisation: null, period: null, visitor: 'v-1', network: 'n-1' };
  const first = openBox();
  await append(
    first,
    usageRow({ requestId: 'a' }),
    usageRow({ requestId: 'stopped', ...visit, unfinished: true }),
    usageRow({ requestId: 'b', ...visit }),
  );
  flush(first);
  expect(content().length).toBeGreaterThan(0);
  await append(first, usageRow({ requestId: 'c' }));
  await crashed(first);
  const second = openBox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(second.outbox.ledger.get('visitor:n-1 2026-11-21')).toEqual({ tokens: 14, turns: 2 });
  expect(second.outbox.ledger.get('visitors:all 2026-11-21')).toEqual({ tokens: 14, turns: 1 });
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 14, turns: 2 });
  expect(errors).toEqual([]);
});

test('a database that stays locked loses nothing: what waited is in the spool after a crash', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  flush(first);
  const repair = sabotage();
  await append(first, usageRow({ requestId: 'b' }));
  flush(first);
  expect(first.outbox.isFull).toBe(true);
  await append(first, usageRow({ requestId: 'c' }));
  expect(first.spool.keptRows).toBe(3);
  expect(first.outbox.queued('acme', '2026-11-01')).toEqual({ tokens: 7, turns: 1 });
  repair();
  await crashed(first);
  const second = openBox();
  expect(written()).toEqual(['a', 'b', 'c']);
  expect(second.outbox.ledger.get('acme 2026-11-01')).toEqual({ tokens: 21, turns: 3 });
});

test('a start with a database that cannot be written keeps the spool, and its rows are written later, once', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  const left = readFileSync(spool());
  await close(first);
  const db = openDatabase(path(), { durability: 'normal' });
  db.exec('DELETE FROM row; DELETE FROM incarnation; UPDATE spool SET taken = 0');
  const repair = sabotage();
  writeFileSync(spool(), left);
  const second = openBox();
  await append(second, usageRow({ requestId: 'b' }));
  // At the start, and perhaps at a retry since.
  expect([second.outbox.isFull, second.outbox.unwritten, [...new Set(errors)]]).toEqual([true, 1, [noRoom]]);
  const durable = new Promise<void>((resolve) => second.outbox.setOnDurable(resolve));
  repair();
  db.close();
  await durable;
  await crashed(second);
  openBox();
  expect(written()).toEqual(['a', 'b']);
});

test('the spool of a deleted database is not billed: nobody knows what was', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  const left = readFileSync(spool());
  await close(first);
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  writeFileSync(spool(), left);
  openBox();
  expect(written()).toEqual([]);
  const [kept = ''] = readdirSync(folder).filter((name) => name.startsWith('outbox.spool.damaged-'));
  expect(readFileSync(join(folder, kept)).equals(left)).toBe(true);
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
])(
  'of a spool with %s, whole groups are billed once, and the start continues',
  async (damage, change, kept) => {
    const first = openBox();
    await append(first, usageRow({ requestId: 'a' }), usageRow({ requestId: 'b' }));
    await append(first, usageRow({ requestId: 'c' }), usageRow({ requestId: 'd' }));
    writeFileSync(spool(), change(content()));
    await crashed(first);
    const second = openBox();
    expect(written()).toEqual(kept);
    const isWhole = damage === 'a group twice';
    expect(errors).toHaveLength(isWhole ? 0 : 1);
    expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toHaveLength(isWhole ? 0 : 1);
    await append(second, usageRow({ requestId: 'later' }));
    await crashed(second);
    openBox();
    expect(written()).toEqual([...kept, 'later']);
  },
);

test('a spool that cannot be written is reported once a second; its rows are lost only where the database has none', async () => {
  const box = openBox();
  await append(box, usageRow({ requestId: 'first' }));
  rmSync(spool());
  flush(box);
  mkdirSync(spool());
  await append(box, usageRow({ requestId: 'a' }));
  await append(box, usageRow({ requestId: 'b' }), usageRow({ requestId: 'c' }));
  expect([box.spool.isFailing, box.spool.unkeptRows, box.spool.keptRows]).toEqual([true, 3, 1]);
  expect(errors).toEqual([expect.stringContaining('EISDIR')]);
  flush(box);
  expect([box.spool.isFailing, box.spool.unkeptRows]).toEqual([false, 0]);
  expect(written()).toEqual(['first', 'a', 'b', 'c']);
});

test.each<[what: string, make: () => void]>([
  ['is a folder', () => mkdirSync(spool())],
  ['is a pipe', () => execFileSync('mkfifo', [spool()])],
  ['is too large', () => writeFileSync(spool(), Buffer.alloc(17 * 1024 * 1024, 'x'))],
])(
  'a spool that %s is moved away and reported, and does not take later rows with it',
  async (_what, make) => {
    const first = openBox();
    await append(first, usageRow({ requestId: 'a' }));
    await crashed(first);
    rmSync(spool());
    make();
    const second = openBox();
    expect(errors).toEqual([expect.stringContaining('cannot be read and is not billed')]);
    const [kept = ''] = readdirSync(folder).filter((name) => name.includes('damaged'));
    expect(errors[0]).toContain(kept);
    rmSync(join(folder, kept), { recursive: true });
    await append(second, usageRow({ requestId: 'b' }));
    await crashed(second);
    openBox();
    expect(written()).toEqual(['b']);
  },
);

test('two copies of a folder give the rows of its spool the same numbers', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  flush(first);
  await append(first, usageRow({ requestId: 'b' }), usageRow({ requestId: 'c' }));
  const files = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))] as const);
  flush(first);
  const shipment = first.outbox.nextShipment();
  expect(shipment?.bodies).toHaveLength(3);
  await close(first);
  open.splice(open.indexOf(first), 1);
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  const copy = openBox();
  expect(copy.outbox.nextShipment()).toMatchObject({ firstN: 1, bodies: shipment?.bodies });
  await append(copy, usageRow({ requestId: 'd' }));
  await crashed(copy);
  openBox();
  expect(written()).toEqual(['a', 'b', 'c', 'd']);
  expect(errors).toEqual([]);
});

test('a spool that is removed while it is used is made again with the next transaction', async () => {
  const box = openBox();
  await append(box, usageRow({ requestId: 'a' }));
  rmSync(spool());
  flush(box);
  await append(box, usageRow({ requestId: 'b' }));
  expect(existsSync(spool())).toBe(true);
  await crashed(box);
  openBox();
  expect(written()).toEqual(['a', 'b']);
});

test('an outbox that is closed leaves an empty spool', async () => {
  const box = openBox();
  await append(box, usageRow({ requestId: 'a' }));
  await close(box);
  expect(content()).toHaveLength(0);
});

test('two files take turns, and neither grows with the rows of a process, while the database takes them', async () => {
  const box = openBox();
  const sizes = (): number[] => spoolPathsOf(path()).map((each) => content(each).length);
  const rows = Array.from({ length: 400 }, (_, index) => usageRow({ requestId: `r-${index}` }));
  for (let round = 0; round < 12; round++) {
    await append(box, ...rows);
    // The group of this round is in a file until the next.
    if (round % 2 === 0) flush(box);
  }
  expect(Math.max(...sizes())).toBeLessThan(512 * 1024);
  expect(Math.min(...sizes())).toBeGreaterThan(0);
  // What was allocated at the start is what is written, so that a full disk takes none of it.
  expect(spoolPathsOf(path()).map((each) => statSync(each).size)).toEqual([spoolBytes, spoolBytes]);
  expect(spoolPathsOf(path()).map((each) => statSync(each).blocks * 512)).toEqual([
    expect.toSatisfy((bytes: number) => bytes >= spoolBytes),
    expect.toSatisfy((bytes: number) => bytes >= spoolBytes),
  ]);
  await crashed(box);
  openBox();
  expect(written()).toHaveLength(12 * 400);
});

test('a file whose groups the database has not taken is not emptied, whatever its size', async () => {
  const box = openBox();
  const rows = Array.from({ length: 400 }, (_, index) => usageRow({ requestId: `r-${index}` }));
  for (let round = 0; round < 12; round++) await append(box, ...rows);
  await crashed(box);
  openBox();
  expect(written()).toHaveLength(12 * 400);
});

test('groups that arrive while one is being written are written together, in their order', async () => {
  const box = openBox();
  const texts = ['a', 'b', 'c', 'd'].map((requestId) => usageText(usageRow({ requestId })));
  for (const rows of texts) box.unsent.push({ number: box.spool.append(rows, 1), rows, count: 1 });
  let writes = 0;
  box.spool.setOnWritten(() => {
    writes++;
  });
  await box.spool.idle();
  expect([writes, box.spool.keptRows]).toEqual([2, 4]);
  await crashed(box);
  openBox();
  expect(written()).toEqual(['a', 'b', 'c', 'd']);
});

test('a write that hangs counts as failing, and groups that the database takes do not gather', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const box = openBox();
    rmSync(spool());
    // To open a pipe waits for its reader.
    execFileSync('mkfifo', [spool()]);
    for (const requestId of ['a', 'b', 'c']) {
      const rows = usageText(usageRow({ requestId }));
      box.unsent.push({ number: box.spool.append(rows, 1), rows, count: 1 });
    }
    expect([box.spool.isFailing, box.spool.unkeptRows]).toEqual([false, 3]);
    vi.advanceTimersByTime(51);
    expect(box.spool.isFailing).toBe(true);
    flush(box);
    expect(box.spool.unkeptRows).toBe(0);
    const reader = openSync(spool(), constants.O_RDONLY | constants.O_NONBLOCK);
    await box.spool.idle();
    closeSync(reader);
    rmSync(spool());
    expect(errors).toEqual([expect.stringContaining('is no file')]);
    expect(box.spool.isFailing).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});

test('a damaged spool stays where it is until the database has its groups', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  await append(first, usageRow({ requestId: 'b' }));
  writeFileSync(spool(), content().subarray(0, -20));
  await crashed(first);
  const repair = sabotage();
  const second = openBox();
  expect(second.outbox.isFull).toBe(true);
  expect(readFileSync(spool(), 'utf8')).toContain('"requestId":"a"');
  repair();
  await crashed(second);
  openBox();
  expect(written()).toEqual(['a']);
});

test('a spool that was away while another process wrote is billed under an id of its own, and blocks nothing', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  flush(first);
  await append(first, usageRow({ requestId: 'b' }));
  await append(first, usageRow({ requestId: 'c' }));
  await crashed(first);
  const away = readFileSync(spool());
  rmSync(spool());
  const second = openBox();
  await append(second, usageRow({ requestId: 'd' }));
  await close(second);
  open.splice(open.indexOf(second), 1);
  writeFileSync(spool(), away);
  const third = openBox();
  await append(third, usageRow({ requestId: 'e' }));
  flush(third);
  // A number of its second group was given again meanwhile.
  expect(written().sort()).toEqual(['a', 'c', 'd', 'e']);
  expect([third.outbox.isFull, errors]).toEqual([false, []]);
});

test('a database in an older state than its spool bills none of it, and says where it is kept', async () => {
  const first = openBox();
  await append(first, usageRow({ requestId: 'a' }));
  flush(first);
  const older = new Map(
    ['outbox.db', 'outbox.db-wal'].map((name) => [name, readFileSync(join(folder, name))]),
  );
  await append(first, usageRow({ requestId: 'b' }));
  flush(first);
  rmSync(spool());
  await append(first, usageRow({ requestId: 'c' }));
  await crashed(first);
  for (const [name, bytes] of older) writeFileSync(join(folder, name), bytes);
  rmSync(join(folder, 'outbox.db-shm'), { force: true });
  const second = openBox();
  expect(written()).toEqual(['a']);
  const [kept = ''] = readdirSync(folder).filter((name) => name.startsWith('outbox.spool.damaged-'));
  expect(readFileSync(join(folder, kept), 'utf8')).toContain('"requestId":"c"');
  expect(errors).toEqual([expect.stringContaining(kept)]);
  await append(second, usageRow({ requestId: 'd' }));
  flush(second);
  expect(written()).toEqual(['a', 'd']);
});

test('a spool that is renamed while it is used is made again with the next transaction', async () => {
  const box = openBox();
  await append(box, usageRow({ requestId: 'a' }));
  renameSync(spool(), join(folder, 'moved'));
  flush(box);
  await append(box, usageRow({ requestId: 'b' }));
  expect(readFileSync(spool(), 'utf8')).toContain('"requestId":"b"');
});

test('after a failed write no row counts as kept until the database has those that failed', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const box = openBox();
    rmSync(spool());
    mkdirSync(spool());
    await append(box, usageRow({ requestId: 'a' }));
    rmSync(spool(), { recursive: true });
    await append(box, usageRow({ requestId: 'b' }));
    expect([box.spool.keptRows, box.spool.unkeptRows]).toEqual([0, 2]);
    vi.advanceTimersByTime(1_000);
    await append(box, usageRow({ requestId: 'c' }));
    expect([box.spool.keptRows, box.spool.unkeptRows]).toEqual([0, 2]);
    flush(box);
    await append(box, usageRow({ requestId: 'd' }));
    expect([box.spool.keptRows, box.spool.unkeptRows, written()]).toEqual([4, 0, ['a', 'b', 'c']]);
  } finally {
    vi.useRealTimers();
  }
});

test('after its end a spool takes nothing, and says so', async () => {
  const box = openBox();
  await append(box, usageRow({ requestId: 'a' }));
  await close(box);
  box.spool.append(usageText(usageRow({ requestId: 'late' })), 1);
  expect(box.spool.unkeptRows).toBe(1);
});

type Step = 'append' | 'visit' | 'flush' | 'crash' | 'restore' | 'ship';

test('wherever it crashes, and whatever old spool comes back, each row is in the database once', async () => {
  const step = fc.constantFrom<Step>('append', 'append', 'visit', 'flush', 'crash', 'restore', 'ship');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      for (const name of readdirSync(folder)) rmSync(join(folder, name));
      let box = openBox();
      let [rows, stopped] = [0, 0];
      let old: Buffer | undefined;
      const take: Record<Step, () => void | Promise<void>> = {
        append: async () => {
          await append(box, usageRow({ requestId: `r-${++rows}` }), usageRow({ requestId: `r-${++rows}` }));
          old = readFileSync(spool());
        },
        visit: async () => {
          const visitor = { organisation: null, period: null, visitor: 'v', unfinished: true } as const;
          await append(box, usageRow({ requestId: `s-${++stopped}`, ...visitor }));
        },
        flush: () => flush(box),
        ship: () => {
          const next = box.outbox.nextShipment();
          if (next) box.outbox.markShipped(next);
        },
        crash: async () => {
          await crashed(box);
          box = openBox();
        },
        restore: async () => {
          flush(box);
          await crashed(box);
          if (old) writeFileSync(spool(), old);
          box = openBox();
        },
      };
      for (const each of steps) await take[each]();
      flush(box);
      expect(written().sort()).toEqual(Array.from({ length: rows }, (_, index) => `r-${index + 1}`).sort());
      expect(box.outbox.ledger.get('acme 2026-11-01')?.turns ?? 0).toBe(rows);
      expect(box.outbox.ledger.get('visitors:all 2026-11-21')?.tokens ?? 0).toBe(7 * stopped);
      expect(errors).toEqual([]);
      for (const each of open.splice(0)) await close(each);
    }),
    { numRuns: runs({ fast: 6, full: 60 }) },
  );
});
