/** Time when each key was last used, and its requests per day, by the sums of its hours. */
import type { UsageRow } from '../../schemas/records/usage.ts';
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import { columnsSql, integer, type RowWith, text } from '../../shared/runtime/table-columns.ts';
import { hourOf, hoursOfDay } from './hour-sums.ts';

const columns = {
  key_use: {
    id: text(),
    organisation: text(),
    last_at: integer(), // completion of the latest request, ms since 1970
  },
} as const;

export const keyUseSql = `
CREATE TABLE key_use (${columnsSql(columns.key_use)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE INDEX key_use_by_organisation ON key_use (organisation);
`;

type KeyUseRow = Pick<RowWith<typeof columns.key_use>, 'id' | 'last_at'> & { readonly requests: number };

/** SQL that adds each key's requests since an hour. Hours are looked up separately, so that other keys' sums are not read. */
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
  /** Requests in the present hour and the 23 before it. */
  readonly requestsOfDay: number;
}

/** The first hour of the day that ends with the present hour. */
export function firstHourOfDay(nowMs: number): number {
  return hourOf(nowMs) - hoursOfDay + 1;
}

export function keyUseOf({ id, last_at: lastMs, requests }: KeyUseRow): KeyUse {
  return { key: id, lastUsedAt: new Date(lastMs).toISOString(), requestsOfDay: requests };
}

/** A key, its organisation, and when it was last used, ms since 1970. */
type LastUse = [key: string, organisation: string, lastMs: number];

/** Uses that several rows add. */
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

/** Writes the uses in the caller's transaction. */
export function writeKeyUses({ addKeyUse }: KeyUseStatements, uses: Iterable<LastUse>): void {
  for (const use of uses) addKeyUse.run(...use);
}
