/** Database reads for `doctor` that may take long in a large state, so they run on the history thread. */
import { dayMs, hourMs } from '../../schemas/durations.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';

export interface DoctorRows {
  /** Number of active keys by organisation. */
  readonly activeKeys: Readonly<Record<string, number>>;
  /** Active keys that expire soon, or whose creator is no longer a member of the organisation. */
  readonly keys: readonly {
    readonly id: string;
    readonly organisation: string;
    readonly expiresAtMs: number | null;
    readonly createdBy: string;
  }[];
  /** Number of health changes in the last hour, by node. */
  readonly healthChanges: Readonly<Record<string, number>>;
}

const expiringMs = 8 * dayMs;
const keysMax = 500;

export function readDoctorRows(db: Database, nowMs: number): DoctorRows {
  const active = 'revoked_at IS NULL AND hash IS NOT NULL AND (expires_at IS NULL OR expires_at > ?)';
  const counts = db
    .prepare(
      `SELECT organisation AS name, count(*) AS count FROM api_key WHERE ${active} GROUP BY organisation`,
    )
    .all(nowMs);
  const keys = db
    .prepare<unknown[], DoctorRows['keys'][number]>(
      `SELECT id, organisation, expires_at AS expiresAtMs, created_by AS createdBy FROM api_key k WHERE ${active}
       AND (expires_at < ? OR (created_by GLOB '[a-z0-9]*' AND created_by NOT LIKE '%:%' AND
         created_by NOT IN ('operator', 'restore') AND NOT EXISTS (
           SELECT 1 FROM member m WHERE m.organisation = k.organisation AND m.person = k.created_by)))
       LIMIT ${keysMax}`,
    )
    .all(nowMs, nowMs + expiringMs);
  const since = db
    .prepare('SELECT coalesce(min(seq), 9e15) FROM history_commit WHERE clock_ms > ?')
    .pluck()
    .get(nowMs - hourMs);
  // Runs one query per node, because the index on subjects begins with kind and id.
  const changes = db
    .prepare(
      `SELECT n.id AS name, (SELECT count(*) FROM subject s WHERE s.kind = 'node' AND s.id = n.id AND s.seq >= ? AND EXISTS (
         SELECT 1 FROM subject t WHERE t.kind = 'type' AND t.id = 'node.health_changed' AND t.seq = s.seq AND t.idx = s.idx
       )) AS count FROM node n`,
    )
    .all(since);
  return { activeKeys: byName(counts), keys, healthChanges: byName(changes) };
}

function byName(rows: readonly unknown[]): Record<string, number> {
  return Object.fromEntries(
    (rows as readonly { readonly name: string; readonly count: number }[]).map(({ name, count }) => [
      name,
      count,
    ]),
  );
}
