/**
 * The tables of `usage.db` and their statements. Totals, marks and positions change in one transaction.
 * `request` is filled only where every request is kept for export.
 */
import { type Database, prepare as prepareTyped } from '../runtime/sqlite.ts';

export const usageFormatVersion = 1;

export const usageSql = `
CREATE TABLE position (
  partition INTEGER PRIMARY KEY,
  next_offset INTEGER NOT NULL,       -- where to go on reading
  trimmed INTEGER NOT NULL            -- 1: the log no longer has its first records
) STRICT;
CREATE TABLE incarnation (
  id TEXT PRIMARY KEY,
  n INTEGER NOT NULL,                 -- number of the last row applied
  hash TEXT                           -- SHA-256 of that row, hex; null where it was given up
) STRICT, WITHOUT ROWID;
CREATE TABLE parked (
  incarnation TEXT NOT NULL,
  n INTEGER NOT NULL,
  body TEXT NOT NULL,                 -- the row as JSON
  PRIMARY KEY (incarnation, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE total (
  organisation TEXT NOT NULL,
  period TEXT NOT NULL,               -- first day
  draw TEXT NOT NULL,                 -- pool | stack | own
  model TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  PRIMARY KEY (organisation, period, draw, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE visitor (
  id TEXT PRIMARY KEY,
  turns INTEGER NOT NULL,
  last_at INTEGER NOT NULL            -- completion of the latest turn, ms since 1970
) STRICT, WITHOUT ROWID;
CREATE INDEX visitor_by_last ON visitor (last_at);
CREATE TABLE request (
  id INTEGER PRIMARY KEY,             -- order in which the rows were folded here
  organisation TEXT,
  period TEXT,
  body TEXT NOT NULL                  -- the row as JSON
) STRICT;
CREATE INDEX request_by_organisation ON request (organisation, period);
PRAGMA user_version = ${usageFormatVersion};
`;

export interface PositionRow {
  readonly partition: number;
  readonly next_offset: number;
  readonly trimmed: number;
}
export interface TotalRow {
  readonly model: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly requests: number;
}

export function prepareUsage(db: Database) {
  const prepare = <Parameters extends unknown[], Row = never>(sql: string) =>
    prepareTyped<Row, Parameters>(db, sql);
  return {
    positions: prepare<[], PositionRow>('SELECT * FROM position'),
    setPosition: prepare<[number, number, number]>('INSERT OR REPLACE INTO position VALUES (?, ?, ?)'),
    mark: prepare<[string], { n: number; hash: string | null }>(
      'SELECT n, hash FROM incarnation WHERE id = ?',
    ),
    setMark: prepare<[string, number, string | null]>('INSERT OR REPLACE INTO incarnation VALUES (?, ?, ?)'),
    parkedCounts: prepare<[], { incarnation: string; count: number }>(
      'SELECT incarnation, count(*) AS count FROM parked GROUP BY incarnation',
    ),
    parkedLowest: prepare<[string], { n: number | null }>(
      'SELECT min(n) AS n FROM parked WHERE incarnation = ?',
    ),
    parked: prepare<[string, number], { body: string }>(
      'SELECT body FROM parked WHERE incarnation = ? AND n = ?',
    ),
    park: prepare<[string, number, string]>('INSERT INTO parked VALUES (?, ?, ?)'),
    unpark: prepare<[string, number]>('DELETE FROM parked WHERE incarnation = ? AND n = ?'),
    addTotal: prepare<[string, string, string, string, number, number, number]>(
      `INSERT INTO total VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
         prompt_tokens = prompt_tokens + excluded.prompt_tokens,
         completion_tokens = completion_tokens + excluded.completion_tokens,
         requests = requests + excluded.requests`,
    ),
    addTurns: prepare<[string, number, number]>(
      `INSERT INTO visitor VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET
         turns = turns + excluded.turns, last_at = max(last_at, excluded.last_at)`,
    ),
    addRequest: prepare<[string | null, string | null, string]>(
      'INSERT INTO request (organisation, period, body) VALUES (?, ?, ?)',
    ),
    totals: prepare<[string, string], TotalRow>(
      `SELECT model, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
              sum(requests) AS requests
       FROM total WHERE organisation = ? AND period = ? GROUP BY model ORDER BY model`,
    ),
    periods: prepare<[string], { period: string }>(
      'SELECT DISTINCT period FROM total WHERE organisation = ? ORDER BY period',
    ),
    poolTokens: prepare<[string, string], { tokens: number }>(
      `SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) AS tokens
       FROM total WHERE organisation = ? AND period = ? AND draw = 'pool'`,
    ),
    freeTurns: prepare<[string], { turns: number }>('SELECT turns FROM visitor WHERE id = ?'),
    requests: prepare<[string, string, number, number], { id: number; body: string }>(
      `SELECT id, body FROM request WHERE organisation = ? AND period = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    allRequests: prepare<[number, number], { id: number; body: string }>(
      'SELECT id, body FROM request WHERE id > ? ORDER BY id LIMIT ?',
    ),
    forgetVisitors: prepare<[number, number]>(
      'DELETE FROM visitor WHERE id IN (SELECT id FROM visitor WHERE last_at < ? LIMIT ?)',
    ),
  };
}

export type UsageStatements = ReturnType<typeof prepareUsage>;
