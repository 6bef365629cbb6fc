/** Position of a snapshot in the log: what it has folded, and where it continues. It is written in the rows' transaction. */
import { hash as digestOf } from 'node:crypto';
import { genesisPrev } from '../../schemas/events/commit.ts';
import { type Database, DatabaseCorrupt, type Statement } from '../runtime/sqlite.ts';
import { columnsSql, integer, orNull, type RowWith, text } from '../runtime/table-columns.ts';
import { foldVersion } from './fold.ts';

/** Columns that describe which part of the log has been folded. */
const foldedColumns = {
  log: orNull(text()), // id of the log; NULL before `log.created`
  seq: integer(), // number of the last folded commit; 0 before the first
  hash: text(), // SHA-256 of the last folded commit's record, in hex
  head_offset: integer(), // log offset of the last folded commit; -1 before the first
  next_offset: integer(), // offset after the last record that was read and counted
  signers: text(), // JSON list of public keys
  skipped: integer(), // number of records that did not extend the log's chain
  diverged_at: orNull(integer()), // number of the checkpoint that differed; NULL if none did
  fold_version: integer(),
} as const;
export type FoldedColumns = RowWith<typeof foldedColumns>;
const foldedNames = Object.keys(foldedColumns) as (keyof FoldedColumns)[];

/** SHA-256 of the position's columns, in hex. Digests do not cover this row. The checksum does not prove who wrote it. */
export function positionChecksum(row: FoldedColumns): string {
  return computeChecksum(foldedNames.map((name) => row[name]));
}

/** The values must be in the order of the position table's columns. */
function computeChecksum(values: readonly unknown[]): string {
  return digestOf('sha256', JSON.stringify(values), 'hex');
}

const empty: FoldedColumns = {
  log: null,
  seq: 0,
  hash: genesisPrev,
  head_offset: -1,
  next_offset: 0,
  signers: '[]',
  skipped: 0,
  diverged_at: null,
  fold_version: foldVersion,
};

export const positionSql = `
CREATE TABLE position (
  lock INTEGER PRIMARY KEY CHECK (lock = 1),
  ${columnsSql(foldedColumns)},
  checksum TEXT NOT NULL,        -- SHA-256 of the columns above, hex
  clean INTEGER NOT NULL,        -- 1 if the file was closed properly
  boot TEXT                      -- boot id of the machine when the file was last opened
) STRICT;
CREATE TABLE digest (name TEXT PRIMARY KEY, sum TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO position VALUES
  (1, NULL, 0, '${genesisPrev}', -1, 0, '[]', 0, NULL, ${foldVersion}, '${positionChecksum(empty)}', 0, NULL);
`;

export interface PositionRow {
  readonly log: string | null;
  readonly seq: number;
  readonly hash: string;
  readonly headOffset: number;
  readonly nextOffset: number;
  readonly signers: readonly string[];
  readonly skipped: number;
  readonly divergedAt: number | null;
  readonly foldVersion: number;
  readonly clean: boolean;
  readonly boot: string | null;
}

interface StoredPosition extends FoldedColumns {
  readonly checksum: string;
  readonly clean: number;
  readonly boot: string | null;
}

export class PositionStore {
  readonly #db: Database;
  readonly #write: Statement;
  readonly #writeSum: Statement;

  constructor(db: Database) {
    this.#db = db;
    this.#write = db.prepare(
      `UPDATE position SET ${foldedNames.map((name) => `${name} = ?`).join(', ')}, checksum = ?, clean = 0`,
    );
    this.#writeSum = db.prepare('INSERT OR REPLACE INTO digest (name, sum) VALUES (?, ?)');
  }

  /** Reads the position. Throws `DatabaseCorrupt` if the row does not match its checksum. */
  read(): PositionRow {
    const stored = this.#db.prepare('SELECT * FROM position').get() as StoredPosition;
    if (stored.checksum !== positionChecksum(stored))
      throw new DatabaseCorrupt(`${this.#db.name} is damaged (its position does not match its checksum)`);
    const { log, seq, hash, skipped } = stored;
    return {
      log,
      seq,
      hash,
      skipped,
      headOffset: stored.head_offset,
      nextOffset: stored.next_offset,
      signers: JSON.parse(stored.signers) as string[],
      divergedAt: stored.diverged_at,
      foldVersion: stored.fold_version,
      clean: stored.clean === 1,
      boot: stored.boot,
    };
  }

  write(row: PositionRow): void {
    const { log, seq, hash, headOffset, nextOffset, skipped, divergedAt } = row;
    const signers = JSON.stringify(row.signers);
    const values = [log, seq, hash, headOffset, nextOffset, signers, skipped, divergedAt, row.foldVersion];
    this.#write.run(...values, computeChecksum(values));
  }

  /** Returns the stored digests by table. A table without a stored digest is absent. */
  sums(): Record<string, bigint> {
    const rows = this.#db.prepare('SELECT name, sum FROM digest').all() as { name: string; sum: string }[];
    return Object.fromEntries(rows.map(({ name, sum }) => [name, BigInt(`0x${sum}`)]));
  }

  writeSum(name: string, sum: string): void {
    this.#writeSum.run(name, sum);
  }

  /** Marks the file as in use during this boot of the machine, so that a crash of the machine can be detected. */
  markOpen(boot: string | null): void {
    this.#db.prepare('UPDATE position SET clean = 0, boot = ?').run(boot);
  }

  markClean(): void {
    this.#db.exec('UPDATE position SET clean = 1');
  }
}
