/** Finds out why the nodes of a place do or do not serve a model. */
import type { PlaceKey } from '../../schemas/names.ts';
import type { NodeReport } from '../../shared/decision/step-texts.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all } from '../../shared/runtime/statements.ts';
import { servedModels } from '../../shared/snapshot/routes.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';

/** Lists the nodes of a place. Nodes that have the model loaded come first. */
export function listNodeReports(db: Database, place: PlaceKey, model: string): NodeReport[] {
  const rows = all<RowOf<'node'>>(db, 'SELECT * FROM node WHERE place = ? ORDER BY id', place);
  return rows
    .map((row) => toNodeReport(row, model))
    .sort((a, b) => Number(a.fault === 'not loaded') - Number(b.fault === 'not loaded'));
}

function toNodeReport(row: RowOf<'node'>, model: string): NodeReport {
  const { id } = row;
  if (!servedModels(row).has(model)) return { id, fault: 'not loaded', mark: 'loaded_set_at' };
  if (row.drained === 1) return { id, fault: 'drained', mark: 'drained_set_at' };
  return row.up === 1 ? { id, mark: 'up_set_at' } : { id, fault: 'down', mark: 'up_set_at' };
}
