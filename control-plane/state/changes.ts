/** Reads staged changes from the state: the open one, and the latest ones that are closed. */
import type { Change } from '../../schemas/events/changes.ts';
import { replicaAuthor } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, first, moment } from '../../shared/runtime/statements.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';

export type OpenChange = RowOf<'change'>;

export function findOpenChange(db: Database): OpenChange | undefined {
  return first<OpenChange>(db, 'SELECT * FROM change');
}

/** Lists changes that a control plane has withdrawn automatically since `sinceMs`. */
export function withdrawnSince(db: Database, sinceMs: number): RowOf<'closed_change'>[] {
  return all<RowOf<'closed_change'>>(
    db,
    `SELECT * FROM closed_change WHERE state = 'withdrawn' AND closed_at > ? AND closed_by LIKE ? ORDER BY closed_at DESC`,
    sinceMs,
    replicaAuthor('%'),
  );
}

/** Lists changes: the open one first, then the closed ones from newest to oldest. */
export function listChanges(db: Database): Change[] {
  const open = findOpenChange(db);
  const closed = all<RowOf<'closed_change'>>(db, 'SELECT * FROM closed_change ORDER BY closed_at DESC, id');
  return [...(open ? [openView(open)] : []), ...closed.map(closedView)];
}

export function findChange(db: Database, id: string): Change | undefined {
  return listChanges(db).find((change) => change.id === id);
}

function commonView(row: OpenChange | RowOf<'closed_change'>) {
  return {
    ...{ id: row.id, wave: row.wave, waves: [...parseColumn(row.waves)], holdSeconds: row.hold_seconds },
    ...{ watch: parseColumn(row.watch), by: row.by, at: moment(row.at) ?? '' },
  };
}

export function openView(row: OpenChange): Change {
  const { passed_over_reason: impossible } = row;
  const view = { ...commonView(row), state: 'open' as const };
  if (impossible === null) return { ...view, next: describeNext(row, view.waves.length) };
  const next = `it cannot be completed: headgate change withdraw ${row.id}`;
  return { ...view, impossible, stuck: `it cannot be completed: ${impossible}`, next };
}

/** Describes what happens next if the wave gets enough requests. If it does not, the change watch reports that. */
function describeNext({ wave, wave_at: waveAt, hold_seconds: seconds }: OpenChange, waves: number): string {
  const step = wave < waves ? `continues with wave ${wave + 1} of ${waves}` : 'is completed';
  return `${step} at ${moment(waveAt + seconds * 1000) ?? ''}`;
}

function closedView(row: RowOf<'closed_change'>): Change {
  const { state, reason } = row;
  const next = state === 'completed' ? 'none, because it is in force everywhere' : 'none';
  return { ...commonView(row), state, next, ...(reason !== null && { reason }) };
}
