/** Records when each key was last used. A key's number of requests per day comes from the hourly sums. */
import type { UsageRow } from '../../schemas/records/usage.ts';
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import { columnsSql, integer, type RowWith, text } from '../../shared/runtime/table-columns.ts';
import { hourOf, hoursOfDay } from './hour-sums.ts';

const columns = {
  key_use: {
    id: text(),
    organisation: text(),
    last_at: integer(), // time when the latest request completed, ms since 1970
  },
} as const;

export const keyUseSql = `
CREATE TABLE key_use (${columnsSql(columns.key_use)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE INDEX key_use_by_organisation ON key_use (organisation);
`;

type KeyUseRow = Pick<RowWith<typeof columns.key_use>, 'id' | 'last_at'> & { readonly requests: number };

/**
 * SQL that adds up each key's requests since an hour. Looks up each hour separately, so that other keys' sums are not read.
 */
const useSql = `
WITH RECURSIVE day (hour) AS (SELECT ? UNION ALL SELECT hour + 1 FROM day LIMIT ${hoursOfDay})
SELECT id, last_at,
  (SELECT coalesce(sum(requests), 0) FROM day CROSS JOIN hour_sum USING (hour)
   WHERE hour_sum.organisation = key_use.organisation AND key = key_use.id) AS requests FROM key_use`;

export function prepareKeyUses(db: Database) {
  return {
    addKeyUse: prepare<never, [string, string, number]>(
      db,
      `INSERT INTO key_use (id, organisation, last_at) VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET last_at = max(last_at, excluded.last_at)`,
    ),
    keyUse: prepare<KeyUseRow, [number, string]>(db, `${useSql} WHERE id = ?`),
    keyUses: prepare<KeyUseRow, [number]>(db, useSql),
    keyUsesOf: prepare<KeyUseRow, [number, string]>(db, `${useSql} WHERE organisation = ?`),
  };
}

type KeyUseStatements = ReturnType<typeof prepareKeyUses>;

export interface KeyUse {
  readonly key: string;
  readonly lastUsedAt: string;
  /** Number of requests in the current hour and the 23 hours before it. */
  readonly requestsOfDay: number;
}

/** Returns the first of the 24 hours that end with the current hour. */
export function firstHourOfDay(nowMs: number): number {
  return hourOf(nowMs) - hoursOfDay + 1;
}

export function keyUseOf({ id, last_at: lastMs, requests }: KeyUseRow): KeyUse {
  return { key: id, lastUsedAt: new Date(lastMs).toISOString(), requestsOfDay: requests };
}

/** A key, its organisation and the time of its last use in ms since 1970. */
type LastUse = [key: string, organisation: string, lastMs: number];

/** Collects the last use of each key from several rows before they are written. */
export class KeyUses {
  readonly #uses = new Map<string, LastUse>();

  add({ key, organisation, at }: UsageRow): void {
    if (key === undefined || organisation === null) return;
    const atMs = Date.parse(at);
    const use = this.#uses.get(key);
    if (use === undefined) this.#uses.set(key, [key, organisation, atMs]);
    else use[2] = Math.max(use[2], atMs);
  }

  all(): LastUse[] {
    return [...this.#uses.values()];
  }
}

/** Writes the last uses of keys, in the caller's transaction. */
export function writeKeyUses({ addKeyUse }: KeyUseStatements, uses: Iterable<LastUse>): void {
  for (const use of uses) addKeyUse.run(...use);
}
