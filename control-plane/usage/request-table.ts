/**
 * Table of completed requests. Rows arrive in `usage.db`, and are moved from there into day files that have the same table.
 */
import type { UsageRow } from '../../schemas/records/usage.ts';
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import {
  columnsSql,
  integer,
  type JsonColumn,
  orNull,
  type RowWith,
  text,
} from '../../shared/runtime/table-columns.ts';

const columns = {
  id: integer(), // increases in the order in which rows were folded here
  organisation: orNull(text()),
  period: orNull(text()),
  body: text<JsonColumn<UsageRow>>(),
} as const;

export type StoredRequest = RowWith<typeof columns>;
export type RequestBody = Pick<StoredRequest, 'id' | 'body'>;

export const requestSql = `
CREATE TABLE request (${columnsSql(columns)}, PRIMARY KEY (id)) STRICT;
CREATE INDEX request_by_organisation ON request (organisation, period);
`;

export function prepareRequests(db: Database) {
  return {
    requests: prepare<RequestBody, [string, string, number, number]>(
      db,
      'SELECT id, body FROM request WHERE organisation = ? AND period = ? AND id > ? ORDER BY id LIMIT ?',
    ),
    allRequests: prepare<RequestBody, [number, number]>(
      db,
      'SELECT id, body FROM request WHERE id > ? ORDER BY id LIMIT ?',
    ),
  };
}

type RequestStatements = ReturnType<typeof prepareRequests>;

export interface RequestQuery {
  readonly organisation?: string;
  /** First day of a billing period. Has an effect only together with `organisation`. */
  readonly period?: string;
  /** First day on which the rows to read were completed. `to` is the day after the last one. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly afterId?: number;
  readonly limit: number;
}

/** Reads rows after an id. Returns fewer than `limit` only at the end. */
export function readRequests(
  sql: RequestStatements,
  { organisation, period }: RequestQuery,
  afterId: number,
  limit: number,
): RequestBody[] {
  return organisation !== undefined && period !== undefined
    ? sql.requests.all(organisation, period, afterId, limit)
    : sql.allRequests.all(afterId, limit);
}
