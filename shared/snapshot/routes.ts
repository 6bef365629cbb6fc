/**
 * The `routes` table: which node serves which model for which place at this position.
 * A node serves a model iff it is up, not drained, reports the model loaded, and (at the pool or a stack) the model is
 * installed there. Derived by the fold, so that a request needs one read and no join.
 */
import type { Tables } from './tables.ts';

export interface RoutedNode {
  readonly id: string;
  readonly place: string;
  readonly url: string;
  readonly dialect: string;
  readonly credential: string | null;
  readonly models: string | null;
  readonly drained: number;
  readonly up: number;
  readonly loaded: string;
}

/** Catalog id → the engine's name, for all that the node has loaded. A declared name goes before the engine's own. */
function servedModels(node: RoutedNode): Map<string, string> {
  const loaded = JSON.parse(node.loaded) as string[];
  const declared = node.models === null ? {} : (JSON.parse(node.models) as Record<string, string>);
  const served = new Map<string, string>();
  for (const name of loaded) if (/^[A-Za-z0-9._:/-]{1,200}$/.test(name)) served.set(name, name);
  for (const [model, name] of Object.entries(declared)) {
    if (loaded.includes(name)) served.set(model, name);
    else served.delete(model);
  }
  return served;
}

function isInstalled(tables: Tables, place: string, model: string): boolean {
  if (place === 'pool') return tables.pool_model.get(model) !== undefined;
  if (place.startsWith('stack:'))
    return tables.stack_model.get(place.slice('stack:'.length), model) !== undefined;
  return true;
}

/** Brings the node's rows in line with the node; writes only what differs. */
export function refreshRoutes(tables: Tables, node: RoutedNode): void {
  const wanted = new Map<string, string>();
  if (node.up && !node.drained) {
    for (const [model, served] of servedModels(node)) {
      if (isInstalled(tables, node.place, model)) wanted.set(model, served);
    }
  }
  for (const route of tables.routes.where('node', node.id)) {
    const model = String(route.model);
    const same = route.place === node.place && route.url === node.url && route.dialect === node.dialect;
    if (same && route.credential === node.credential && wanted.get(model) === route.served)
      wanted.delete(model);
    else tables.routes.remove(route);
  }
  for (const [model, served] of wanted) {
    const { place, url, dialect, credential } = node;
    tables.routes.put({ place, model, node: node.id, served, url, dialect, credential });
  }
}
