/** Tests the rules of the fold, which computes from the log's records how much of a limit each process may use. */
import { expect, test } from 'vitest';
import { type GaugeRecord, inFlightWindow } from '../../schemas/records/gauges.ts';
import { readGauges } from '../../test/support/read-gauges.ts';
import { ClaimsFold } from './claims-fold.ts';
import { ClaimsRows } from './claims-rows.ts';

const minute = 60_000;

/** A log with a single limit of 10, and one reader. */
class Log {
  readonly fold = new ClaimsFold();
  readonly #window: number;
  #offset = 0;
  #numbers = new Map<string, number>();
  nowMs = 0;

  constructor(window = minute) {
    this.#window = window;
  }

  append(process: string, claim?: { used?: number; claim: number }, more: Partial<GaugeRecord> = {}): number {
    const n = (this.#numbers.get(process) ?? 0) + 1;
    this.#numbers.set(process, n);
    const entries =
      claim === undefined ? [] : [{ subject: 'acme', window: this.#window, limit: 10, used: 0, ...claim }];
    const record = { process, name: process, n, at: 0, ended: [], silent: [], entries, ...more };
    this.fold.apply(readGauges(record), ++this.#offset, this.nowMs);
    return this.claimOf(process);
  }

  claimOf(process: string): number {
    return this.fold.findClaim(process, { subject: 'acme', window: this.#window });
  }

  get offset(): number {
    return this.#offset;
  }
}

test('a process gets what the others leave and keeps what it holds, and its use counts whatever it claims', () => {
  const log = new Log();
  expect(log.append('a', { claim: 7 })).toBe(7);
  expect(log.append('b', { claim: 7 })).toBe(3);
  // Process `a` keeps the seven requests that it holds even though others claim them, but `a` does not get more.
  expect(log.append('a', { claim: 7 })).toBe(7);
  expect(log.append('a', { claim: 9 })).toBe(7);
  expect(log.append('b', { claim: 5 })).toBe(3);
  // Room that `a` gives up goes to `b` with the next record of `b`, so `a` does not get it back.
  expect(log.append('a', { claim: 5 })).toBe(5);
  expect(log.append('b', { claim: 5 })).toBe(5);
  expect(log.append('a', { claim: 7 })).toBe(5);
  // Admitted requests count even beyond the limit, but no other process loses room because of them.
  expect(log.append('a', { used: 8, claim: 8 })).toBe(8);
  expect(log.append('b', { claim: 5 })).toBe(5);
  expect(log.append('b', { claim: 6 })).toBe(5);
  expect(log.append('b', { used: 2, claim: 0 })).toBe(2);
});

test.each([
  ['in flight', inFlightWindow, [5, 6, 4]],
  ['a minute', minute, [5, 6, 6]],
])('the use by others is the sum of their last records, including ended processes: %s', (_, window, sums) => {
  const log = new Log(window);
  const others = () => log.fold.usedByOthers('a', { subject: 'acme', window });
  expect(others()).toBe(0);
  log.append('a', { used: 3, claim: 3 });
  log.append('b', { used: 1, claim: 4 });
  log.append('c', { used: 4, claim: 4 });
  const seen = [others()];
  log.append('b', { used: 2, claim: 2 });
  seen.push(others());
  log.append('a', undefined, { ended: [['b', log.offset]] });
  seen.push(others());
  expect(seen).toEqual(sums);
});

test('a repeated or late record, or one of an ended process, changes nothing', () => {
  const log = new Log();
  log.append('a', { claim: 5 });
  log.append('a', { claim: 2 });
  expect(log.append('a', { claim: 9 }, { n: 1 })).toBe(2);
  expect(log.append('a', { claim: 9 }, { n: 2 })).toBe(2);
  log.append('b', undefined, { ended: [['a', log.offset]] });
  expect(log.fold.live).toBe(1);
  expect(log.append('a', { claim: 9 }, { n: 9 })).toBe(2);
  expect(log.fold.live).toBe(1);
  expect(log.fold.hasEnded('a')).toBe(true);
});

test('an ended process’s claim on a minute keeps counting, but not its concurrency', () => {
  for (const window of [minute, inFlightWindow]) {
    const log = new Log(window);
    log.append('a', { used: 4, claim: 6 });
    log.append('b', undefined, { ended: [['a', log.offset]] });
    expect(log.append('b', { claim: 10 })).toBe(window === minute ? 4 : 10);
  }
});

test('a process does not end if the log has a newer record of it than its judge had read', () => {
  const log = new Log(inFlightWindow);
  log.append('a', { claim: 6 });
  const seen = log.offset;
  log.append('a', { claim: 7 });
  log.append('b', undefined, { ended: [['a', seen]] });
  expect(log.claimOf('a')).toBe(7);
  expect(log.fold.live).toBe(2);
});

test('a process holds all room only if no other’s record came between, and if it has not ended', () => {
  const log = new Log();
  log.append('a');
  const seen = log.offset;
  log.append('b');
  log.append('a', undefined, { alone: seen });
  expect(log.fold.alone).toBeUndefined();
  log.append('a', undefined, { alone: log.offset, ended: [['a', Number.MAX_SAFE_INTEGER]] });
  expect(log.fold.alone).toBeUndefined();
});

test('while one process holds all the room, others get none until it gives it up, ends or is silent', () => {
  const ways: readonly ((log: Log, seen: number) => void)[] = [
    (log) => log.append('a'),
    (log, seen) => log.append('b', undefined, { silent: [['a', seen]] }),
    (log, seen) => log.append('b', undefined, { ended: [['a', seen]] }),
  ];
  for (const way of ways) {
    const log = new Log();
    log.append('a', undefined, { alone: 0 });
    const seen = log.offset;
    expect(log.fold.alone).toBe('a');
    expect(log.append('b', { claim: 3 })).toBe(0);
    way(log, seen);
    expect(log.fold.alone).toBeUndefined();
    expect(log.append('b', { claim: 3 })).toBe(3);
  }
});

test('a process with all the room is not silent if the log has a newer record than its judge had read', () => {
  const log = new Log();
  log.append('a', undefined, { alone: 0 });
  const seen = log.offset;
  log.append('a', undefined, { alone: seen });
  log.append('b', undefined, { silent: [['a', seen]] });
  expect(log.fold.alone).toBe('a');
});

test('past minutes are deleted, and an ended process after ten minutes', () => {
  const log = new Log();
  log.append('a', { used: 4, claim: 4 });
  log.append('b', undefined, { ended: [['a', log.offset]] });
  log.fold.sweep(700_000, minute + 120_000);
  expect(log.claimOf('a')).toBe(4);
  log.fold.sweep(700_000, minute + 140_000);
  expect(log.claimOf('a')).toBe(0);
  expect(log.fold.size).toBe(0);
  expect(log.fold.hasEnded('a')).toBe(false);
});

test('an ended process lacks nothing, so that nobody gives up room for it', () => {
  const log = new Log();
  log.append('a', { used: 8, claim: 8 });
  log.append('b', { claim: 9 });
  expect(log.fold.row({ subject: 'acme', window: minute })?.short).toBe(1);
  log.append('a', undefined, { ended: [['b', log.offset]] });
  expect(log.fold.row({ subject: 'acme', window: minute })?.short).toBe(0);
});

test('a released claim on concurrency is deleted, and the whole limit once nobody holds any', () => {
  const log = new Log(inFlightWindow);
  log.append('a', { claim: 3 });
  log.append('b', { claim: 2 });
  log.append('b', { claim: 0 });
  log.fold.sweep(0, 0);
  const row = log.fold.row({ subject: 'acme', window: inFlightWindow });
  expect([...(row?.cells.keys() ?? [])]).toEqual(['a']);
  expect(log.append('b', { claim: 9 })).toBe(7);
  log.append('a', { claim: 0 });
  log.append('b', { claim: 0 });
  log.fold.sweep(0, 0);
  expect(log.fold.size).toBe(0);
});

test('one sweep examines a bounded part of the concurrency claims, and several examine all', () => {
  const rows = new ClaimsRows({ epoch: 0, count: () => 0, sharers: () => 0, has: () => false });
  const subjects = Array.from({ length: 1_000 }, (_, index) => `organisation-${index}`);
  for (let process = 0; process < 20; process++)
    for (const held of [1, 0]) {
      const entries = subjects.map((subject) => ({
        ...{ subject, window: inFlightWindow, limit: 100, used: 0 },
        claim: process === 0 ? 1 : held,
      }));
      rows.fold({ process: `p-${process}`, entries, isBlocked: false, atMs: 0, loggedMs: 0 });
    }
  const cells = (): number =>
    subjects.reduce(
      (sum, subject) => sum + (rows.row({ subject, window: inFlightWindow })?.cells.size ?? 0),
      0,
    );
  expect(cells()).toBe(20_000);
  const looks: number[] = [];
  while (cells() > 1_000 && looks.length < 100) looks.push(rows.sweep(0));
  expect(looks).toHaveLength(5);
  expect(Math.max(...looks)).toBeLessThan(5_021);
  for (const subject of subjects)
    rows.fold({
      process: 'p-0',
      entries: [{ subject, window: inFlightWindow, limit: 100, used: 0, claim: 0 }],
      isBlocked: false,
      atMs: 0,
      loggedMs: 0,
    });
  while (rows.size > 0 && looks.length < 100) looks.push(rows.sweep(0));
  expect(rows.size).toBe(0);
});

test.each([
  [3, 60],
  [5, 60],
  // With a limit of 4, half of which is shared among three processes, each process's share is less than one request.
  [3, 4],
])(
  'until all know that a gateway joined, others leave it the earlier shares of concurrency: %i of %i',
  (joins, most) => {
    const fold = new ClaimsFold();
    const limit = { subject: 'acme', window: inFlightWindow, limit: most };
    const numbers = new Map<string, number>();
    let offset = 0;
    const append = (process: string, loggedMs: number, claim?: number): number => {
      const n = (numbers.get(process) ?? 0) + 1;
      numbers.set(process, n);
      const entries = claim === undefined ? [] : [{ ...limit, used: 0, claim }];
      const record = {
        process,
        name: process,
        n,
        ended: [],
        silent: [],
        entries,
        at: loggedMs,
        from: loggedMs,
      };
      fold.apply(record, ++offset, loggedMs, loggedMs);
      return fold.findClaim(process, limit);
    };
    const before = Array.from({ length: joins - 1 }, (_, index) => `gateway-${index}`);
    for (const process of before) append(process, 1000);
    for (const process of before) append(process, 4000);
    append('new', 5000);
    // The new process claims immediately, although the others may not know of it yet and still use their old shares.
    expect(append('new', 5001, most)).toBe(most / 2);
    expect(append('new', 7999, most)).toBe(most / 2);
    const share = most < 2 * joins ? 0 : most / (2 * joins);
    expect(append('new', 8000, most)).toBe(most - before.length * share);
  },
);
