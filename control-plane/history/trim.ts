/** Limits the size of `history.db` by removing whole spans of commits from the oldest end. All later states stay complete. */
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { type TableName, tableNames, tableSpecs } from '../../shared/snapshot/tables.ts';

/** Share of the size limit that remains after trimming. Trimming should be rare, because its last step reads all subjects. */
const keptShare = 7 / 8;
const subjectsPerStep = 20_000;

/** Advice for a question about a part of the past that was removed. */
export const keepMore =
  'raise --history-gigabytes, and delete history.db, which is then rebuilt from the log';

/** Returns the first position whose state can be read. */
export function firstPosition(db: Database): number {
  return Math.max(1, Number(db.prepare('SELECT min(seq) FROM span').pluck().get() ?? 0));
}

/** Returns the number of bytes in pages that are in use. */
function usedBytes(db: Database): number {
  const value = (name: string): number => Number(db.pragma(name, { simple: true }));
  return (value('page_count') - value('freelist_count')) * value('page_size');
}

/** Trims the history in steps. Each step removes one span or examines some subjects. The last span is never removed. */
export function* trimHistory(db: Database, bytesMax: number): Generator<void> {
  if (usedBytes(db) <= bytesMax) return;
  const spans = new SpanCutter(db);
  while (usedBytes(db) > bytesMax * keptShare && spans.cutFirst()) yield;
  yield* trimSubjects(db, firstPosition(db));
}

class SpanCutter {
  readonly #db: Database;
  readonly #spans: Statement<[], { readonly seq: number }>;
  readonly #changed: Statement<[number, number], { readonly tbl: TableName; readonly key: string }>;
  readonly #versions: Readonly<Record<TableName, Statement>>;
  readonly #keys: Readonly<Record<TableName, Statement>>;
  readonly #rest: readonly Statement<[number]>[];

  constructor(db: Database) {
    this.#db = db;
    this.#spans = db.prepare('SELECT seq FROM span ORDER BY seq LIMIT 2');
    this.#changed = db.prepare('SELECT DISTINCT tbl, key FROM row_change WHERE seq >= ? AND seq < ?');
    const ofEach = (sql: (name: TableName, where: string) => string) =>
      Object.fromEntries(
        tableNames.map((name) => {
          const where = tableSpecs[name].key.map((column) => `${column} = ?`).join(' AND ');
          return [name, db.prepare(sql(name, where))];
        }),
      ) as Record<TableName, Statement>;
    this.#versions = ofEach((name, where) => `DELETE FROM past_${name} WHERE ${where} AND end_seq < ?`);
    this.#keys = ofEach(
      (name, where) =>
        `DELETE FROM key_${name} WHERE ${where} AND NOT EXISTS (SELECT 1 FROM past_${name} WHERE ${where})`,
    );
    // Commits that set signers stay, because the valid signers come from the last such commit, however old it is.
    this.#rest = [
      db.prepare('DELETE FROM history_commit WHERE seq < ? AND signers IS NULL'),
      db.prepare('DELETE FROM row_change WHERE seq < ?'),
      db.prepare('DELETE FROM span WHERE seq < ?'),
    ];
  }

  /** Removes the first span, unless it is the only one. Its last commit's changes stay, because they can still be shown. */
  cutFirst(): boolean {
    const [first, next] = this.#spans.all();
    if (first === undefined || next === undefined) return false;
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      for (const { tbl, key: text } of this.#changed.all(first.seq, next.seq)) {
        const key = JSON.parse(text) as SqlValue[];
        this.#versions[tbl].run(...key, next.seq);
        this.#keys[tbl].run(...key, ...key);
      }
      for (const statement of this.#rest) statement.run(next.seq);
      this.#db.exec('COMMIT');
      return true;
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }
}

/** Removes the subjects of removed commits. All rows must be visited, because the table is sorted by subject. */
function* trimSubjects(db: Database, begin: number): Generator<void> {
  const after = '(kind, id, seq, idx) > (?, ?, ?, ?)';
  const last = db.prepare<unknown[], Subject>(
    `SELECT kind, id, seq, idx FROM subject WHERE ${after} ORDER BY kind, id, seq, idx LIMIT 1 OFFSET ${subjectsPerStep}`,
  );
  const remove = db.prepare(
    `DELETE FROM subject WHERE seq < ? AND ${after} AND (kind, id, seq, idx) <= (?, ?, ?, ?)`,
  );
  const removeRest = db.prepare(`DELETE FROM subject WHERE seq < ? AND ${after}`);
  for (let from: SqlValue[] = ['', '', 0, 0]; ; ) {
    const end = last.get(...from);
    if (end === undefined) {
      removeRest.run(begin, ...from);
      return;
    }
    const to = [end.kind, end.id, end.seq, end.idx];
    remove.run(begin, ...from, ...to);
    from = to;
    yield;
  }
}

interface Subject {
  readonly kind: string;
  readonly id: string;
  readonly seq: number;
  readonly idx: number;
}
