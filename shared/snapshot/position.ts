/**
 * Where a snapshot stands, kept in the same file and written in the same transaction as its rows:
 * one row of position, and one digest a table.
 */
import { genesisPrev } from '../../schemas/commit.ts';
import type { Database, Statement } from '../runtime/sqlite.ts';
import { foldVersion } from './fold.ts';

export const positionSql = `
CREATE TABLE position (
  lock INTEGER PRIMARY KEY CHECK (lock = 1),
  log TEXT,                      -- id of the log, NULL before log.created
  seq INTEGER NOT NULL,          -- last commit folded, 0 before the first
  hash TEXT NOT NULL,            -- SHA-256 of its record, hex
  head_offset INTEGER NOT NULL,  -- where that record stands in the log, -1 before the first
  next_offset INTEGER NOT NULL,  -- where to go on reading
  signers TEXT NOT NULL,         -- JSON list of public keys
  skipped INTEGER NOT NULL,      -- records that did not extend the chain
  diverged_at INTEGER,           -- seq of a checkpoint that differed, NULL: none
  fold_version INTEGER NOT NULL,
  clean INTEGER NOT NULL,        -- 1: closed in good order
  boot TEXT                      -- the run of the machine in which it was last opened
) STRICT;
CREATE TABLE digest (name TEXT PRIMARY KEY, sum TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO position VALUES (1, NULL, 0, '${genesisPrev}', -1, 0, '[]', 0, NULL, ${foldVersion}, 0, NULL);
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

interface Stored {
  readonly log: string | null;
  readonly seq: number;
  readonly hash: string;
  readonly head_offset: number;
  readonly next_offset: number;
  readonly signers: string;
  readonly skipped: number;
  readonly diverged_at: number | null;
  readonly fold_version: number;
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
      'UPDATE position SET log = ?, seq = ?, hash = ?, head_offset = ?, next_offset = ?, signers = ?, skipped = ?, diverged_at = ?, clean = 0',
    );
    this.#writeSum = db.prepare('INSERT OR REPLACE INTO digest VALUES (?, ?)');
  }

  read(): PositionRow {
    const stored = this.#db.prepare('SELECT * FROM position').get() as Stored;
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
    const signers = JSON.stringify(row.signers);
    this.#write.run(
      row.log,
      row.seq,
      row.hash,
      row.headOffset,
      row.nextOffset,
      signers,
      row.skipped,
      row.divergedAt,
    );
  }

  /** The stored digest of each table that has one. */
  sums(): Record<string, bigint> {
    const rows = this.#db.prepare('SELECT name, sum FROM digest').all() as { name: string; sum: string }[];
    return Object.fromEntries(rows.map(({ name, sum }) => [name, BigInt(`0x${sum}`)]));
  }

  writeSum(name: string, sum: string): void {
    this.#writeSum.run(name, sum);
  }

  /** From here on the file is in use, in this run of the machine. */
  markOpen(boot: string | null): void {
    this.#db.prepare('UPDATE position SET clean = 0, boot = ?').run(boot);
  }

  markClean(): void {
    this.#db.exec('UPDATE position SET clean = 1');
  }
}
