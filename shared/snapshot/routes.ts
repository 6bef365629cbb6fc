/**
 * Maintains the `routes` table, which lists the nodes that can currently serve each model at each place, because they are up,
 * not drained and have the model loaded. Routes depend only on nodes. Look-ups check whether a model is installed at the
 * place.
 */
import type { PlaceKey } from '../../schemas/names.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

/** Maps the catalogue ids of a node's loaded models to the engine's names for them. Names that the node declares win. */
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

const stackPrefix = 'stack:';

/** Returns a check whether a model may be served at a place. An organisation's own nodes may serve any model. */
export function installsIn(db: Database): (place: PlaceKey, model: string) => boolean {
  const inPool = prepare<number, [string]>(db, 'SELECT 1 FROM pool_model WHERE model = ?').pluck();
  const onStack = prepare<number, [string, string]>(
    db,
    'SELECT 1 FROM stack_model WHERE stack = ? AND model = ?',
  ).pluck();
  return (place, model) => {
    if (place === 'pool') return inPool.get(model) !== undefined;
    if (!place.startsWith(stackPrefix)) return true;
    return onStack.get(place.slice(stackPrefix.length), model) !== undefined;
  };
}

/** Updates a node's routes, writing only rows that differ. */
export function refreshRoutes(tables: TableViews, node: RowOf<'node'>): undefined {
  const wanted = node.up && !node.drained ? servedModels(node) : new Map<string, string>();
  const windows = parseColumn(node.windows);
  const imageModels = new Set(parseColumn(node.image_models));
  const rerankModels = new Set(parseColumn(node.rerank_models));
  const { place, url, dialect, credential } = node;
  const after = new Map(
    [...wanted].map(([model, served]) => {
      const window_tokens = Object.hasOwn(windows, served) ? (windows[served] ?? null) : null;
      const takes_images = imageModels.has(served) ? 1 : 0;
      const reranks = rerankModels.has(served) ? 1 : 0;
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
        reranks,
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
