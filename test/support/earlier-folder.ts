/**
 * Files of version 0.1.0, with the tables that it made: a gateway's `outbox.db` with three rows, of which the first is on the
 * log, and the `usage.db` into which gateways and control planes folded the rows of all gateways.
 */
import { join } from 'node:path';
import { openDatabase } from '../../shared/runtime/sqlite.ts';

export const earlierIncarnation = 'aaaaaaaa-0000-4000-8000-000000000000';

export interface EarlierFolder {
  readonly folder: string;
  readonly organisation?: string;
  readonly period: string;
  /** Prompt tokens that the pool had completed, in addition to 200 others. */
  readonly promptTokens?: number;
}

function row(n: number, organisation: string, period: string, more: object): string {
  const at = '2026-11-21T10:00:00.000Z';
  const counted = {
    draw: 'pool',
    model: 'echo-small',
    promptTokens: 3,
    completionTokens: 4,
    requestId: `r-${n}`,
  };
  return JSON.stringify({
    v: 1,
    incarnation: earlierIncarnation,
    n,
    at,
    organisation,
    period,
    ...counted,
    ...more,
  });
}

/** Rows of 7 tokens: two of the pool, one of the organisation's own nodes. */
export function makeEarlierOutbox({ folder, organisation = 'acme', period }: EarlierFolder): void {
  const outbox = openDatabase(join(folder, 'outbox.db'), { durability: 'normal' });
  outbox.exec(`
CREATE TABLE incarnation (ordinal INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE row (
  ordinal INTEGER NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (ordinal, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE shipment (
  id INTEGER PRIMARY KEY, ordinal INTEGER NOT NULL, upto_n INTEGER NOT NULL, at_ms INTEGER NOT NULL
) STRICT;
PRAGMA user_version = 1;
INSERT INTO incarnation VALUES (1, '${earlierIncarnation}');
INSERT INTO shipment VALUES (1, 1, 1, ${Date.now()});`);
  const insert = outbox.prepare('INSERT INTO row VALUES (1, ?, ?)');
  for (const [n, more] of [{}, {}, { draw: 'own' }].entries())
    insert.run(n + 1, row(n + 1, organisation, period, more));
  outbox.close();
}

/** Folded up to the first row; the requests are kept, as a control plane does. */
export function makeEarlierUsage({
  folder,
  organisation = 'acme',
  period,
  promptTokens = 100,
}: EarlierFolder): void {
  const usage = openDatabase(join(folder, 'usage.db'), { durability: 'normal' });
  usage.exec(`
CREATE TABLE position (
  partition INTEGER NOT NULL, next_offset INTEGER NOT NULL, trimmed INTEGER NOT NULL, PRIMARY KEY (partition)
) STRICT;
CREATE TABLE incarnation (id TEXT NOT NULL, n INTEGER NOT NULL, hash TEXT, PRIMARY KEY (id)) STRICT, WITHOUT ROWID;
CREATE TABLE parked (
  incarnation TEXT NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (incarnation, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE total (
  organisation TEXT NOT NULL, period TEXT NOT NULL, draw TEXT NOT NULL, model TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, requests INTEGER NOT NULL,
  PRIMARY KEY (organisation, period, draw, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE visitor (
  id TEXT NOT NULL, turns INTEGER NOT NULL, last_at INTEGER NOT NULL, PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX visitor_by_last ON visitor (last_at);
CREATE TABLE request (
  id INTEGER NOT NULL, organisation TEXT, period TEXT, body TEXT NOT NULL, PRIMARY KEY (id)
) STRICT;
CREATE INDEX request_by_organisation ON request (organisation, period);
PRAGMA user_version = 1;
INSERT INTO incarnation VALUES ('${earlierIncarnation}', 1, NULL);
INSERT INTO total VALUES ('${organisation}', '${period}', 'pool', 'echo-small', ${promptTokens}, 200, 9);
INSERT INTO total VALUES ('${organisation}', '${period}', 'own', 'echo-small', 1000, 2000, 9);
INSERT INTO total VALUES ('${organisation}', '2020-01-01', 'pool', 'echo-small', 1, 2, 9);`);
  usage.close();
}

/** A row of the pool as a gateway ships it: one of 0.1 names no replica. */
export interface ShippedRow {
  readonly incarnation: string;
  readonly n: number;
  readonly organisation: string;
  readonly period: string;
  readonly promptTokens: number;
  readonly replica?: string;
}

/** As a control plane of 0.1 folds rows, whose readers drop members that they do not know, from one partition. */
export function foldAsEarlier(folder: string, rows: readonly ShippedRow[], nextOffset: number): void {
  const usage = openDatabase(join(folder, 'usage.db'), { durability: 'normal' });
  for (const { replica: _, ...kept } of rows) {
    const { incarnation, n, organisation, period, promptTokens } = kept;
    usage.prepare('INSERT OR REPLACE INTO incarnation VALUES (?, ?, NULL)').run(incarnation, n);
    usage
      .prepare('INSERT INTO request (organisation, period, body) VALUES (?, ?, ?)')
      .run(organisation, period, JSON.stringify(kept));
    usage
      .prepare(
        `INSERT INTO total VALUES (?, ?, 'pool', 'echo-small', ?, 0, 1) ON CONFLICT DO UPDATE SET
           prompt_tokens = prompt_tokens + excluded.prompt_tokens, requests = requests + 1`,
      )
      .run(organisation, period, promptTokens);
  }
  usage.prepare('INSERT OR REPLACE INTO position VALUES (0, ?, 0)').run(nextOffset);
  usage.close();
}
