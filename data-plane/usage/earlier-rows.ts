/**
 * Rows that builds before the log of rows kept in `outbox.db`: they are shipped under their own incarnations and numbers before all
 * others, and removed a day after the usage log has acknowledged them.
 */
import { usageRecordRowsMax } from '../../schemas/usage.ts';
import { type Database, prepare, type Statement } from '../../shared/runtime/sqlite.ts';

export const earlierRowsSql = `
CREATE TABLE incarnation (
  ordinal INTEGER PRIMARY KEY,   -- order of the process starts
  id TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE row (
  ordinal INTEGER NOT NULL,
  n INTEGER NOT NULL,
  body TEXT NOT NULL,            -- the row as JSON
  PRIMARY KEY (ordinal, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE shipment (
  id INTEGER PRIMARY KEY,        -- order of the acknowledgements
  ordinal INTEGER NOT NULL,
  upto_n INTEGER NOT NULL,       -- rows up to this number are on the log
  at_ms INTEGER NOT NULL         -- when the log acknowledged them, ms since 1970
) STRICT;
`;

/** Acknowledged shipments removed by one transaction at most, so that none takes long. */
const removedAtOnceMax = 10;

/** Rows of one process start. */
interface EarlierIncarnation {
  readonly ordinal: number;
  readonly id: string;
  /** Number of the last row on the log. */
  shippedN: number;
  readonly lastN: number;
}

export interface EarlierShipment {
  readonly incarnation: string;
  readonly bodies: readonly string[];
  /** Number of the last one. */
  readonly uptoN: number;
}

export class EarlierRows {
  #incarnations: EarlierIncarnation[];
  readonly #db: Database;
  readonly #read: Statement<[number, number], { n: number; body: string }>;

  /** The tables exist. */
  constructor(db: Database) {
    this.#db = db;
    this.#read = prepare(
      db,
      `SELECT n, body FROM row WHERE ordinal = ? AND n > ? ORDER BY n LIMIT ${usageRecordRowsMax}`,
    );
    this.#incarnations = prepare<EarlierIncarnation>(db, incarnationsSql).all();
  }

  /** Ids of the incarnations that have rows here, oldest first. */
  get ids(): string[] {
    return this.#incarnations.map(({ id }) => id);
  }

  /** Rows not yet known to be on the usage log. */
  get unshipped(): number {
    return this.#incarnations.reduce((sum, { shippedN, lastN }) => sum + lastN - shippedN, 0);
  }

  next(): EarlierShipment | undefined {
    const incarnation = this.#incarnations.find(({ shippedN, lastN }) => shippedN < lastN);
    if (incarnation === undefined) return undefined;
    const rows = this.#read.all(incarnation.ordinal, incarnation.shippedN);
    const uptoN = rows.at(-1)?.n ?? incarnation.lastN;
    return { incarnation: incarnation.id, bodies: rows.map(({ body }) => body), uptoN };
  }

  markShipped({ incarnation: id, uptoN }: EarlierShipment, nowMs: number): void {
    const incarnation = this.#incarnations.find((each) => each.id === id);
    if (incarnation === undefined || uptoN <= incarnation.shippedN) return;
    incarnation.shippedN = uptoN;
    const sql = 'INSERT INTO shipment (ordinal, upto_n, at_ms) VALUES (?, ?, ?)';
    this.#db.prepare(sql).run(incarnation.ordinal, uptoN, nowMs);
  }

  /** Ships rows from number `n` on again. False where they are not here. */
  reship(id: string, n: number): boolean {
    const incarnation = this.#incarnations.find((each) => each.id === id);
    if (incarnation === undefined || n > incarnation.shippedN) return false;
    const [first] = this.#read.all(incarnation.ordinal, n - 1);
    if (first?.n !== n) return false;
    this.#db.prepare('DELETE FROM shipment WHERE ordinal = ? AND upto_n >= ?').run(incarnation.ordinal, n);
    incarnation.shippedN = n - 1;
    return true;
  }

  /** Removes some of those that were acknowledged before `sinceMs`. */
  remove(sinceMs: number): void {
    if (this.#incarnations.length === 0) return;
    const sql = `SELECT id, ordinal, upto_n FROM shipment WHERE at_ms < ? ORDER BY id LIMIT ${removedAtOnceMax}`;
    const old = prepare<{ id: number; ordinal: number; upto_n: number }>(this.#db, sql).all(sinceMs);
    if (old.length === 0) return;
    this.#db.transaction(() => {
      for (const { id, ordinal, upto_n } of old) {
        this.#db.prepare('DELETE FROM row WHERE ordinal = ? AND n <= ?').run(ordinal, upto_n);
        this.#db.prepare('DELETE FROM shipment WHERE id = ?').run(id);
      }
      this.#db.exec('DELETE FROM incarnation WHERE ordinal NOT IN (SELECT ordinal FROM row)');
    })();
    this.#incarnations = prepare<EarlierIncarnation>(this.#db, incarnationsSql).all();
  }
}

const incarnationsSql = `
  SELECT ordinal, id,
    coalesce((SELECT max(upto_n) FROM shipment WHERE shipment.ordinal = incarnation.ordinal),
      (SELECT min(n) FROM row WHERE row.ordinal = incarnation.ordinal) - 1) AS shippedN,
    (SELECT max(n) FROM row WHERE row.ordinal = incarnation.ordinal) AS lastN
  FROM incarnation WHERE ordinal IN (SELECT ordinal FROM row) ORDER BY ordinal`;
