/**
 * The `routes` table: which node serves which model for which place at this position.
 * A node serves a model iff it is up, not drained, reports the model loaded, and (at the pool or a stack) the model is
 * installed there. Derived by the fold, so that a request needs one read and no join.
 */
import type { PlaceKey } from '../../schemas/names.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

/** Catalog id → the engine's name, for all that the node has loaded. A declared name takes precedence over the engine's own. */
export function servedModels(node: Pick<RowOf<'node'>, 'loaded' | 'models'>): Map<string, string> {
  const loaded = parseColumn(node.loaded);
  const declared = node.models === null ? {} : parseColumn(node.models);
  const served = new Map<string, string>();
  for (const name of loaded) if (/^[A-Za-z0-9._:/-]{1,200}$/.test(name)) served.set(name, name);
  for (const [model, name] of Object.entries(declared)) {
    if (loaded.includes(name)) served.set(model, name);
    else served.delete(model);
  }
  return served;
}

function isInstalled(tables: TableViews, place: PlaceKey, model: string): boolean {
  if (place === 'pool') return tables.pool_model.get(model) !== undefined;
  if (place.startsWith('stack:'))
    return tables.stack_model.get(place.slice('stack:'.length), model) !== undefined;
  return true;
}

/** Updates the routes of a node; writes only what differs. */
export function refreshRoutes(tables: TableViews, node: RowOf<'node'>): void {
  const wanted = new Map<string, string>();
  if (node.up && !node.drained) {
    for (const [model, served] of servedModels(node)) {
      if (isInstalled(tables, node.place, model)) wanted.set(model, served);
    }
  }
  const windows = parseColumn(node.windows);
  const imageModels = new Set(parseColumn(node.image_models));
  const { place, url, dialect, credential } = node;
  const after = new Map(
    [...wanted].map(([model, served]) => {
      const window_tokens = Object.hasOwn(windows, served) ? (windows[served] ?? null) : null;
      const takes_images = imageModels.has(served) ? 1 : 0;
      const row: RowOf<'routes'> = {
        place,
        model,
        node: node.id,
        served,
        url,
        dialect,
        credential,
        window_tokens,
        takes_images,
      };
      return [model, row];
    }),
  );
  for (const before of tables.routes.where('node', node.id)) {
    const row = after.get(before.model);
    if (row && isSame(before, row)) after.delete(row.model);
    else tables.routes.remove(before);
  }
  for (const row of after.values()) tables.routes.put(row);
}

function isSame(before: RowOf<'routes'>, row: RowOf<'routes'>): boolean {
  return Object.entries(row).every(([column, value]) => before[column as keyof RowOf<'routes'>] === value);
}
