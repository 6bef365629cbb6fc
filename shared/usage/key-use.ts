/** When each key was last used, and how often in a day: folded with the rows, in the transaction that counts them. */
import { hourMs } from '../../schemas/durations.ts';
import type { UsageRow } from '../../schemas/usage.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { columnsSql, integer, type JsonColumn, type RowWith, text } from '../runtime/table-columns.ts';

const hoursKept = 24;

const columns = {
  key_use: {
    id: text(),
    organisation: text(),
    last_at: integer(), // completion of the latest request, ms since 1970
  },
  key_hour: {
    key: text(),
    hour: integer(), // since 1970
    requests: integer(),
  },
  key_count: {
    one: integer(), // 1
    before: integer(), // uses by rows of `request` below this id are not counted yet
  },
} as const;

/** Made after `request`: rows that are there already are counted afterwards. */
export const keyUseSql = `
CREATE TABLE key_use (${columnsSql(columns.key_use)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE INDEX key_use_by_organisation ON key_use (organisation);
CREATE TABLE key_hour (${columnsSql(columns.key_hour)}, PRIMARY KEY (key, hour)) STRICT, WITHOUT ROWID;
CREATE INDEX key_hour_by_hour ON key_hour (hour);
CREATE TABLE key_count (${columnsSql(columns.key_count)}, PRIMARY KEY (one)) STRICT;
INSERT INTO key_count SELECT 1, coalesce(max(id), 0) + 1 FROM request;
`;

type KeyUseRow = Pick<RowWith<typeof columns.key_use>, 'id' | 'last_at'> & { readonly requests: number };

/** With the requests from an hour on. */
const useSql = `SELECT id, last_at,
  (SELECT coalesce(sum(requests), 0) FROM key_hour WHERE key = key_use.id AND hour >= ?) AS requests FROM key_use`;

export function prepareKeyUses(db: Database) {
  return {
    addKeyUse: prepare<never, [string, string, number]>(
      db,
      'INSERT INTO key_use VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET last_at = max(last_at, excluded.last_at)',
    ),
    addKeyHour: prepare<never, [string, number, number]>(
      db,
      'INSERT INTO key_hour VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET requests = requests + excluded.requests',
    ),
    keyUse: prepare<KeyUseRow, [number, string]>(db, `${useSql} WHERE id = ?`),
    keyUses: prepare<KeyUseRow, [number]>(db, useSql),
    keyUsesOf: prepare<KeyUseRow, [number, string]>(db, `${useSql} WHERE organisation = ?`),
    removeKeyHours: prepare<never, [number]>(db, 'DELETE FROM key_hour WHERE hour < ?'),
    uncountedBefore: prepare<{ before: number }, []>(db, 'SELECT before FROM key_count'),
    setUncountedBefore: prepare<never, [number]>(db, 'UPDATE key_count SET before = ?'),
    requestsBefore: prepare<{ id: number; body: JsonColumn<UsageRow> }, [number, number]>(
      db,
      'SELECT id, body FROM request WHERE id < ? ORDER BY id DESC LIMIT ?',
    ),
  };
}

type KeyUseStatements = ReturnType<typeof prepareKeyUses>;

export interface KeyUse {
  readonly key: string;
  readonly lastUsedAt: string;
  /** In the present hour and the 23 before it. */
  readonly requestsOfDay: number;
}

/** The first hour of the day that ends with the present hour. */
export function firstHourOfDay(nowMs: number): number {
  return Math.floor(nowMs / hourMs) - hoursKept + 1;
}

export function keyUseOf({ id, last_at: lastMs, requests }: KeyUseRow): KeyUse {
  return { key: id, lastUsedAt: new Date(lastMs).toISOString(), requestsOfDay: requests };
}

interface Use {
  readonly organisation: string;
  lastMs: number;
  /** Requests by hour since 1970. */
  readonly hours: Map<number, number>;
}

/** What the rows of one transaction add. */
export class KeyUses {
  readonly #uses = new Map<string, Use>();
  readonly #firstHour = firstHourOfDay(Date.now());

  add({ key, organisation, at }: UsageRow): void {
    if (key === undefined || organisation === null) return;
    const atMs = Date.parse(at);
    const use = this.#uses.get(key) ?? { organisation, lastMs: atMs, hours: new Map<number, number>() };
    this.#uses.set(key, use);
    use.lastMs = Math.max(use.lastMs, atMs);
    const hour = Math.floor(atMs / hourMs);
    if (hour >= this.#firstHour) use.hours.set(hour, (use.hours.get(hour) ?? 0) + 1);
  }

  write({ addKeyUse, addKeyHour }: Pick<KeyUseStatements, 'addKeyUse' | 'addKeyHour'>): void {
    for (const [key, { organisation, lastMs, hours }] of this.#uses) {
      addKeyUse.run(key, organisation, lastMs);
      for (const [hour, requests] of hours) addKeyHour.run(key, hour, requests);
    }
  }
}
