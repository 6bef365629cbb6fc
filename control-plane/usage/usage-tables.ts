/** Tables of `usage.db` and their statements. Requests, hourly sums and key uses are stored only if rows are kept. */
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { type Database, prepare as prepareTyped, type Statement } from '../../shared/runtime/sqlite.ts';
import { columnsSql, integer, orNull, type RowWith, text } from '../../shared/runtime/table-columns.ts';
import { hourSumSql, prepareHourSums } from './hour-sums.ts';
import { keptSql, prepareKept } from './kept-tables.ts';
import { keyUseSql, prepareKeyUses } from './key-use.ts';
import { requestSql } from './request-table.ts';

const columns = {
  position: {
    partition: integer(),
    next_offset: integer(), // offset at which reading continues
    trimmed: integer(), // 1 if the log no longer has its first records
  },
  incarnation: {
    id: text(),
    n: integer(), // number of the incarnation's row that was applied last
    hash: orNull(text()), // first 8 hexadecimal digits of the SHA-256 of each of the last rows; NULL if rows never arrived
  },
  authenticity: {
    partition: integer(),
    unsigned_until: orNull(integer()), // always 0; earlier builds counted records before this offset without a MAC
    refused_from: orNull(integer()), // offset of the first record refused for lack of a valid MAC; NULL if there is none
  },
  parked: { incarnation: text(), n: integer(), body: text() /* the row as JSON, in any version */ },
  total: {
    organisation: text(), // id of the organisation, or `visitors:all` for all visitors
    period: text(), // first day of the billing period; for visitors the UTC day
    draw: text(), // capacity used: `pool`, `stack` or `own`
    model: text(),
    prompt_tokens: integer(),
    completion_tokens: integer(),
    requests: integer(),
  },
  // Earlier builds filled this table. Now gateways count the turns of visitors.
  visitor: { id: text(), turns: integer(), last_at: integer() },
} as const;

type RowOf<Table extends keyof typeof columns> = RowWith<(typeof columns)[Table]>;
type Total = Pick<RowOf<'total'>, 'model' | 'prompt_tokens' | 'completion_tokens' | 'requests'>;
export type PoolTotal = Pick<RowOf<'total'>, 'organisation' | 'period' | 'requests'> & {
  readonly tokens: number;
};

export const usageFormat = {
  version: 7,
  added: 'DELETE FROM visitor;',
  sql: `
CREATE TABLE position (${columnsSql(columns.position)}, PRIMARY KEY (partition)) STRICT;
CREATE TABLE incarnation (${columnsSql(columns.incarnation)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE TABLE parked (${columnsSql(columns.parked)}, PRIMARY KEY (incarnation, n)) STRICT, WITHOUT ROWID;
CREATE TABLE total (
  ${columnsSql(columns.total)}, PRIMARY KEY (organisation, period, draw, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE authenticity (${columnsSql(columns.authenticity)}, PRIMARY KEY (partition)) STRICT;
CREATE TABLE visitor (${columnsSql(columns.visitor)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE INDEX visitor_by_last ON visitor (last_at);
${requestSql}${keyUseSql}${hourSumSql}${keptSql}`,
};

export function prepareUsage(db: Database) {
  const prepare = <Parameters extends unknown[], Row = never>(sql: string): Statement<Parameters, Row> =>
    prepareTyped<Row, Parameters>(db, sql);
  return {
    ...prepareKeyUses(db),
    ...prepareHourSums(db),
    ...prepareKept(db),
    positions: prepare<[], RowOf<'position'>>('SELECT * FROM position'),
    setPosition: prepare<[number, number, number]>(
      'INSERT OR REPLACE INTO position (partition, next_offset, trimmed) VALUES (?, ?, ?)',
    ),
    authenticity: prepare<[], RowOf<'authenticity'>>('SELECT * FROM authenticity'),
    setAuthenticity: prepare<[number, number | null]>(
      'INSERT OR REPLACE INTO authenticity (partition, unsigned_until, refused_from) VALUES (?, 0, ?)',
    ),
    mark: prepare<[string], Pick<RowOf<'incarnation'>, 'n' | 'hash'>>(
      'SELECT n, hash FROM incarnation WHERE id = ?',
    ),
    setMark: prepare<[string, number, string | null]>(
      'INSERT OR REPLACE INTO incarnation (id, n, hash) VALUES (?, ?, ?)',
    ),
    parkedCounts: prepare<[], { incarnation: string; count: number }>(
      'SELECT incarnation, count(*) AS count FROM parked GROUP BY incarnation',
    ),
    parkedLowest: prepare<[string], { n: number | null }>(
      'SELECT min(n) AS n FROM parked WHERE incarnation = ?',
    ),
    parked: prepare<[string, number], Pick<RowOf<'parked'>, 'body'>>(
      'SELECT body FROM parked WHERE incarnation = ? AND n = ?',
    ),
    park: prepare<[string, number, string]>('INSERT INTO parked (incarnation, n, body) VALUES (?, ?, ?)'),
    unpark: prepare<[string, number]>('DELETE FROM parked WHERE incarnation = ? AND n = ?'),
    addTotal: prepare<[string, string, string, string, number, number, number]>(
      `INSERT INTO total (organisation, period, draw, model, prompt_tokens, completion_tokens, requests)
         VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
         prompt_tokens = prompt_tokens + excluded.prompt_tokens,
         completion_tokens = completion_tokens + excluded.completion_tokens,
         requests = requests + excluded.requests`,
    ),
    addRequest: prepare<[string | null, string | null, string]>(
      'INSERT INTO request (organisation, period, body) VALUES (?, ?, ?)',
    ),
    totals: prepare<[string, string], Total>(
      `SELECT model, sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
              sum(requests) AS requests
       FROM total WHERE organisation = ? AND period = ? GROUP BY model ORDER BY model`,
    ),
    periods: prepare<[string], Pick<RowOf<'total'>, 'period'>>(
      'SELECT DISTINCT period FROM total WHERE organisation = ? ORDER BY period',
    ),
    poolTokens: prepare<[string, string], { tokens: number }>(
      `SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) AS tokens
       FROM total WHERE organisation = ? AND period = ? AND draw = 'pool'`,
    ),
    poolTotals: prepare<[], PoolTotal>(
      `SELECT organisation, period, sum(prompt_tokens + completion_tokens) AS tokens, sum(requests) AS requests
       FROM total WHERE draw = 'pool' AND organisation <> '${visitorsSubject}' GROUP BY organisation, period`,
    ),
  };
}

export type UsageStatements = ReturnType<typeof prepareUsage>;
