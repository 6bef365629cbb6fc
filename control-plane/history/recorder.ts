/** Writes the history while a snapshot in the same file is folded, in the same transaction. */
import type { Commit } from '../../schemas/events/commit.ts';
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { eventContext } from '../../shared/snapshot/fold-input.ts';
import type { FoldObserver } from '../../shared/snapshot/fold-observer.ts';
import { type TableName, type TableRow, tableNames, tableSpecs } from '../../shared/snapshot/tables.ts';
import { keyOfRow } from './row-changes.ts';
import { Subjects } from './subjects.ts';
import { commitsPerSpan, type HistoryCommit, openEnd } from './tables.ts';

interface Change {
  readonly table: TableName;
  readonly before: TableRow | undefined;
  after: TableRow | undefined;
}

function keyText(table: TableName, row: TableRow): string {
  return JSON.stringify(keyOfRow(table, row));
}

export class HistoryRecorder implements FoldObserver {
  readonly #tables: Readonly<Record<TableName, VersionTable>>;
  readonly #insertCommit: Statement;
  readonly #insertSubject: Statement;
  readonly #insertChange: Statement;
  readonly #insertSpan: Statement;
  readonly #ownerOfStack: Statement<[string], string>;
  #seq = 0;
  #index = -1;
  #clockMs: number;
  #changes = new Map<string, Change>();
  #subjects: Subjects[] = [];

  constructor(db: Database) {
    this.#tables = Object.fromEntries(tableNames.map((name) => [name, new VersionTable(db, name)])) as Record<
      TableName,
      VersionTable
    >;
    this.#insertCommit = db.prepare(insertCommitSql);
    this.#insertSubject = db.prepare(
      'INSERT OR IGNORE INTO subject (kind, id, seq, idx) VALUES (?, ?, ?, ?)',
    );
    this.#insertChange = db.prepare('INSERT OR IGNORE INTO row_change (seq, tbl, key) VALUES (?, ?, ?)');
    this.#insertSpan = db.prepare('INSERT OR REPLACE INTO span (seq, digests) VALUES (?, ?)');
    this.#ownerOfStack = db
      .prepare<[string], string>('SELECT organisation FROM stack WHERE id = ?')
      .pluck() as Statement<[string], string>;
    // If a transaction is rolled back, this value no longer matches the file, so the file is then reopened.
    this.#clockMs = Number(db.prepare('SELECT max(clock_ms) FROM history_commit').pluck().get() ?? 0);
  }

  event({ seq, by, events }: Commit, index: number): void {
    // If an event is folded again, the transaction that folded it before was rolled back, so collect its changes anew.
    if (seq !== this.#seq || index <= this.#index) this.#begin(seq);
    this.#index = index;
    const stored = events[index];
    const subjects = this.#current();
    subjects.add('actor', by.slice(0, 200));
    if (stored) subjects.addEvent(stored.type, stored.data);
  }

  changed(table: TableName, before: TableRow | undefined, after: TableRow | undefined): void {
    const row = after ?? before;
    if (row === undefined) return;
    const id = `${table} ${keyText(table, row)}`;
    const known = this.#changes.get(id);
    if (known) known.after = after;
    else this.#changes.set(id, { table, before, after });
    for (const each of [before, after]) if (each) this.#current().addRow(table, each);
  }

  committed(commit: Commit, digests: () => Record<TableName, string>): void {
    const { seq } = commit;
    if (seq !== this.#seq) this.#begin(seq);
    for (const change of this.#changes.values()) this.#writeVersion(seq, change);
    for (const [index, stored] of commit.events.entries()) {
      this.#subjects[index] ??= new Subjects();
      this.#subjects[index]?.add('actor', commit.by.slice(0, 200));
      this.#subjects[index]?.addEvent(stored.type, stored.data);
    }
    for (const [index, subjects] of this.#subjects.entries()) this.#writeSubjects(seq, index, subjects);
    const row = toHistoryCommit(commit, this.#clockMs, readSetSigners(commit));
    this.#clockMs = row.clock_ms;
    this.#insertCommit.run(row);
    if (seq % commitsPerSpan === 0) this.#insertSpan.run(seq, JSON.stringify(digests()));
    this.#begin(0);
  }

  #begin(seq: number): void {
    this.#seq = seq;
    this.#index = -1;
    this.#changes = new Map();
    this.#subjects = [];
  }

  #current(): Subjects {
    const subjects = this.#subjects[this.#index] ?? new Subjects();
    this.#subjects[this.#index] = subjects;
    return subjects;
  }

  #writeVersion(seq: number, { table, before, after }: Change): void {
    if (before === undefined && after === undefined) return;
    if (before && after && isSame(before, after)) return;
    const key = this.#tables[table].write(seq, before, after);
    this.#insertChange.run(seq, table, key);
  }

  #writeSubjects(seq: number, index: number, subjects: Subjects | undefined): void {
    if (!subjects) return;
    for (const stack of subjects.of('stack')) subjects.add('organisation', this.#ownerOfStack.get(stack));
    for (const [kind, id] of subjects.all()) this.#insertSubject.run(kind, id, seq, index);
  }
}

/** Converts a commit to a row. `clockMs` is the latest time of all earlier commits. */
function toHistoryCommit(commit: Commit, clockMs: number, signers: string | null): HistoryCommit {
  const { seq, at, by, why, via, id, events } = commit;
  return {
    seq,
    at: at.toWellFormed(),
    clock_ms: Math.max(clockMs, eventContext(commit).atMs),
    author: by.toWellFormed(),
    why: why?.toWellFormed() ?? null,
    via: via?.toWellFormed() ?? null,
    command: id.toWellFormed(),
    kind: /^[a-z]+/.exec(events[0]?.type ?? '')?.[0] ?? 'other',
    events: serialiseEvents(events),
    signers,
  };
}

const insertCommitSql = `INSERT INTO history_commit
  (seq, at, clock_ms, author, why, via, command, kind, events, signers)
  VALUES (@seq, @at, @clock_ms, @author, @why, @via, @command, @kind, @events, @signers)`;

/** Returns the signers that an accepted commit sets (accept rule of `shared/log/core/chain.ts`), or null if it sets none. */
function readSetSigners({ seq, events }: Commit): string | null {
  const [event] = events;
  const type = seq === 1 ? 'log.created' : 'log.signers_set';
  if (event?.type !== type || events.length !== 1 || (seq > 1 && !event.critical)) return null;
  const { signers = [] } = event.data as { readonly signers?: unknown };
  return JSON.stringify(signers);
}

function isSame(before: TableRow, after: TableRow): boolean {
  return Object.keys(after).every((name) => {
    const [was, is] = [before[name] ?? null, after[name] ?? null];
    return Buffer.isBuffer(was) && Buffer.isBuffer(is) ? was.equals(is) : was === is;
  });
}

/** Serialises events. Data that is nested too deeply to be serialised, although it could be parsed, becomes null. */
function serialiseEvents(events: Commit['events']): string {
  try {
    return JSON.stringify(events);
  } catch {
    return JSON.stringify(events.map((event) => ({ ...event, data: null })));
  }
}

class VersionTable {
  readonly #name: TableName;
  readonly #columns: readonly string[];
  readonly #key: readonly string[];
  readonly #end: Statement;
  readonly #insert: Statement;
  readonly #insertKey: Statement;

  constructor(db: Database, name: TableName) {
    this.#name = name;
    this.#columns = Object.keys(tableSpecs[name].columns);
    this.#key = tableSpecs[name].key;
    const where = this.#key.map((column) => `${column} = ?`).join(' AND ');
    const places = (count: number): string => Array.from({ length: count }, () => '?').join(', ');
    this.#end = db.prepare(
      `UPDATE past_${name} SET end_seq = ? WHERE ${where} AND set_seq = (SELECT max(set_seq) FROM past_${name} WHERE ${where})`,
    );
    this.#insert = db.prepare(`INSERT INTO past_${name} VALUES (${places(this.#columns.length + 2)})`);
    this.#insertKey = db.prepare(`INSERT OR IGNORE INTO key_${name} VALUES (${places(this.#key.length)})`);
  }

  /** Ends the row's previous version and adds the new one. Returns the row's key as text. */
  write(seq: number, before: TableRow | undefined, after: TableRow | undefined): string {
    const row = (after ?? before) as TableRow;
    const key = this.#key.map((column): SqlValue => row[column] ?? null);
    if (before) this.#end.run(seq, ...key, ...key);
    else this.#insertKey.run(...key);
    if (after) this.#insert.run(...this.#columns.map((column) => after[column] ?? null), seq, openEnd);
    return keyText(this.#name, row);
  }
}
