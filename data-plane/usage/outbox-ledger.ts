/**
 * Counters of the usage that this data folder has recorded, by subject and period. They are tables of `outbox.db` and change
 * in the transaction that counts the usage rows. The folder counts as one replica, whose id is created with the file and
 * replaced after a conflict with another folder.
 */
import { randomUUID } from 'node:crypto';
import { dayMs } from '../../schemas/durations.ts';
import { type CounterEntry, visitorPrefix } from '../../schemas/records/limits.ts';
import { counterKey, entriesEndMs, type Sum } from '../../shared/limits/counters.ts';
import { type Database, prepare, type Statement } from '../../shared/runtime/sqlite.ts';
import type { CounterLedger } from '../limits/gateway-counters.ts';

export const ledgerSql = `
CREATE TABLE replica (
  ordinal INTEGER PRIMARY KEY,   -- the highest is the current one
  id TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE process (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE counter (
  replica TEXT NOT NULL,
  subject TEXT NOT NULL,
  period TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,        -- time of the last increase
  PRIMARY KEY (replica, subject, period)
) STRICT, WITHOUT ROWID;
`;

/** Number of visitors, and likewise of networks, whose counters are kept: the most recent. Others start again at zero. */
const latestMax = 10_000;
/** Number of visitors, or networks, beyond `latestMax` at which the oldest are removed. */
const latestSlack = 1000;
const networkPrefix = `${visitorPrefix}n-`;
const kinds = ['visitor', 'network'] as const;
type Kind = (typeof kinds)[number];

interface CounterRow {
  readonly replica: string;
  readonly subject: string;
  readonly period: string;
  readonly tokens: number;
  readonly turns: number;
}

export class OutboxLedger implements CounterLedger {
  replica: string;
  readonly #db: Database;
  readonly #add: Statement;
  readonly #sums = new Map<string, { tokens: number; turns: number }>();
  readonly #processes = new Set<string>();
  readonly #held: Record<Kind, number> = { visitor: 0, network: 0 };
  /** UTC day on which the counters of past periods were last removed, as a number of days since 1970. */
  #day: number;

  /** Loads the counters from the database, which must already have their tables. */
  constructor(db: Database, nowMs: number) {
    this.#db = db;
    const latest = 'SELECT id FROM replica ORDER BY ordinal DESC LIMIT 1';
    this.replica = prepare<{ id: string }>(db, latest).get()?.id ?? this.#newReplica();
    this.#removeEnded(nowMs);
    this.#day = dayOf(nowMs);
    for (const { id } of prepare<{ id: string }>(db, 'SELECT id FROM process').all()) this.#processes.add(id);
    for (const row of this.#rows('replica = ?')) this.#hold(row, row.tokens, row.turns);
    this.#add = db.prepare(`INSERT INTO counter (replica, subject, period, tokens, turns, at_ms)
      VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
      tokens = tokens + excluded.tokens, turns = turns + excluded.turns, at_ms = excluded.at_ms`);
  }

  startProcess(id: string): void {
    this.#db.prepare('INSERT OR IGNORE INTO process VALUES (?)').run(id);
    this.#processes.add(id);
  }

  /** Adds to the stored counters. Must be called in the transaction that counts the rows, and `hold` after its commit. */
  write(entries: readonly CounterEntry[], nowMs: number): void {
    for (const [subject, period, tokens, turns] of entries)
      this.#add.run(this.replica, subject, period, tokens, turns, nowMs);
    for (const kind of kinds) if (this.#held[kind] > latestMax + latestSlack) this.#removeOldest(kind);
    if (dayOf(nowMs) > this.#day) this.#removeEnded(nowMs);
  }

  hold(entries: readonly CounterEntry[], nowMs: number): void {
    for (const [subject, period, tokens, turns] of entries) this.#hold({ subject, period }, tokens, turns);
    for (const kind of kinds) if (this.#held[kind] > latestMax + latestSlack) this.#dropOldest(kind);
    if (dayOf(nowMs) <= this.#day) return;
    this.#day = dayOf(nowMs);
    const untilMs = endedUntil(nowMs, [...this.#sums.keys()].map(periodIn));
    for (const key of this.#sums.keys()) if (entriesEndMs(periodIn(key)) <= untilMs) this.#drop(key);
  }

  get(key: string): Sum | undefined {
    return this.#sums.get(key);
  }

  isOwnProcess(process: string): boolean {
    return this.#processes.has(process);
  }

  *entries(): Generator<CounterEntry> {
    for (const [key, { tokens, turns }] of this.#sums) {
      const space = key.indexOf(' ');
      yield [key.slice(0, space), key.slice(space + 1), tokens, turns];
    }
  }

  former(): { readonly replica: string; readonly entries: CounterEntry[] }[] {
    const found = new Map<string, CounterEntry[]>();
    for (const { replica, subject, period, tokens, turns } of this.#rows('replica <> ?')) {
      const entries = found.get(replica) ?? [];
      entries.push([subject, period, tokens, turns]);
      found.set(replica, entries);
    }
    return [...found].map(([replica, entries]) => ({ replica, entries }));
  }

  renew(): void {
    this.replica = this.#newReplica();
    this.#sums.clear();
    for (const kind of kinds) this.#held[kind] = 0;
  }

  #newReplica(): string {
    const id = randomUUID();
    this.#db.prepare('INSERT INTO replica (id) VALUES (?)').run(id);
    return id;
  }

  #rows(where: string): CounterRow[] {
    const sql = `SELECT replica, subject, period, tokens, turns FROM counter WHERE ${where} ORDER BY at_ms`;
    return prepare<CounterRow>(this.#db, sql).all(this.replica);
  }

  /** Adds to a counter in memory. Moves visitors and networks to the end of the map, so that the oldest come first. */
  #hold({ subject, period }: Pick<CounterRow, 'subject' | 'period'>, tokens: number, turns: number): void {
    const key = counterKey(subject, period);
    const sum = this.#sums.get(key);
    const kind = kindOf(key);
    if (kind !== undefined && sum === undefined) this.#held[kind]++;
    if (kind !== undefined) this.#sums.delete(key);
    this.#sums.set(key, { tokens: (sum?.tokens ?? 0) + tokens, turns: (sum?.turns ?? 0) + turns });
  }

  #drop(key: string): void {
    const kind = kindOf(key);
    if (this.#sums.delete(key) && kind !== undefined) this.#held[kind]--;
  }

  #dropOldest(kind: Kind): void {
    const all = [...this.#sums.keys()].filter((key) => kindOf(key) === kind);
    for (const key of all.slice(0, all.length - latestMax)) this.#drop(key);
  }

  #removeOldest(kind: Kind): void {
    const not = kind === 'network' ? '' : 'NOT';
    this.#db
      .prepare(
        `DELETE FROM counter WHERE replica = ? AND (subject, period) IN (SELECT subject, period FROM counter
         WHERE replica = ? AND subject LIKE '${visitorPrefix}%' AND subject ${not} LIKE '${networkPrefix}%'
         ORDER BY at_ms DESC LIMIT -1 OFFSET ${latestMax})`,
      )
      .run(this.replica, this.replica);
  }

  #removeEnded(nowMs: number): void {
    const periods = prepare<{ period: string }>(this.#db, 'SELECT DISTINCT period FROM counter').all();
    const untilMs = endedUntil(
      nowMs,
      periods.map(({ period }) => period),
    );
    for (const { period } of periods)
      if (entriesEndMs(period) <= untilMs)
        this.#db.prepare('DELETE FROM counter WHERE period = ?').run(period);
  }
}

/** Kind of a counter of turns, or undefined for other counters. Visitors and networks have the same prefix. */
function kindOf(key: string): Kind | undefined {
  if (!key.startsWith(visitorPrefix)) return undefined;
  return key.startsWith(networkPrefix) ? 'network' : 'visitor';
}

function periodIn(key: string): string {
  return key.slice(key.indexOf(' ') + 1);
}

/** Time in ms before which periods count as past: now, but not after the newest period began, in case the clock is fast. */
function endedUntil(wallMs: number, periods: readonly string[]): number {
  const begun = periods.map((period) => Date.parse(period.length === 7 ? `${period}-01` : period));
  return Math.min(
    wallMs,
    begun.reduce((latest, ms) => Math.max(latest, ms), 0),
  );
}

function dayOf(nowMs: number): number {
  return Math.floor(nowMs / dayMs);
}
