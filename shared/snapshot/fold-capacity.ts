/**
 * What events of stacks, the pool and nodes do to the rows, and to the routes that follow from them.
 * Part of the fold: pure, total, see fold.ts.
 */
import { placeKey } from '../../schemas/names.ts';
import { type EventSkipReason, type Handlers, removeAll } from './fold-types.ts';
import { refreshRoutes } from './routes.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

export function removeNode(tables: TableViews, node: RowOf<'node'>): void {
  removeAll(tables.node_token.where('node', node.id), (row) => tables.node_token.remove(row));
  removeAll(tables.routes.where('node', node.id), (row) => tables.routes.remove(row));
  tables.node.remove(node);
}

export function removeStack(tables: TableViews, stack: RowOf<'stack'>): void {
  removeAll(tables.stack_model.where('stack', stack.id), (row) => tables.stack_model.remove(row));
  removeAll(tables.node.where('place', `stack:${stack.id}`), (row) => removeNode(tables, row));
  tables.stack.remove(stack);
}

/** Names as a column holds them. */
export function textOfNames(names: readonly string[]): string {
  return JSON.stringify([...new Set(names)].sort());
}

function changeNode(tables: TableViews, id: string, change: Partial<RowOf<'node'>>): EventSkipReason {
  const node = tables.node.get(id);
  if (!node) return 'no such node';
  const after = { ...node, ...change };
  tables.node.put(after);
  refreshRoutes(tables, after);
  return undefined;
}

export const capacityHandlers: Pick<
  Handlers,
  | 'stack.created'
  | 'stack.surface_set'
  | 'stack.removed'
  | 'stack.model_installed'
  | 'stack.model_uninstalled'
  | 'pool.model_installed'
  | 'pool.model_uninstalled'
  | 'node.registered'
  | 'node.drained'
  | 'node.undrained'
  | 'node.removed'
  | 'node.token_created'
  | 'node.token_revoked'
  | 'node.joined'
  | 'node.health_changed'
> = {
  'stack.created': (tables, { id, organisation, surface }, { atMs }) => {
    if (tables.stack.get(id)) return 'the stack is there already';
    tables.stack.put({ id, organisation, surface, created_at: atMs });
    return undefined;
  },
  'stack.surface_set': (tables, { id, surface }) => {
    const stack = tables.stack.get(id);
    if (!stack) return 'no such stack';
    tables.stack.update(stack, { surface });
    return undefined;
  },
  'stack.removed': (tables, { id }) => {
    const stack = tables.stack.get(id);
    if (!stack) return 'no such stack';
    removeStack(tables, stack);
    return undefined;
  },
  'stack.model_installed': (tables, { stack, model }) => {
    tables.stack_model.put({ stack, model });
    return undefined;
  },
  'stack.model_uninstalled': (tables, { stack, model }) => {
    tables.stack_model.remove({ stack, model });
    return undefined;
  },
  'pool.model_installed': (tables, { model }) => {
    tables.pool_model.put({ model });
    return undefined;
  },
  'pool.model_uninstalled': (tables, { model }) => {
    tables.pool_model.remove({ model });
    return undefined;
  },
  'node.registered': (tables, data) => {
    const before = tables.node.get(data.id);
    const row: RowOf<'node'> = {
      id: data.id,
      place: placeKey(data.place),
      url: data.url,
      dialect: data.dialect,
      credential: data.credential ?? null,
      models: data.models ? JSON.stringify(data.models) : null,
      agent: data.agent ? 1 : 0,
      drained: before?.drained ?? 0,
      // A new address must be found healthy first; the generation is kept, so no former owner can report on it.
      owner: null,
      generation: before?.generation ?? 0,
      up: 0,
      loaded: '[]',
      windows: '{}',
      image_models: '[]',
      rerank_models: '[]',
      reason: null,
      changed_at: null,
    };
    tables.node.put(row);
    refreshRoutes(tables, row);
    return undefined;
  },
  'node.drained': (tables, { id }) => changeNode(tables, id, { drained: 1 }),
  'node.undrained': (tables, { id }) => changeNode(tables, id, { drained: 0 }),
  'node.removed': (tables, { id }) => {
    const node = tables.node.get(id);
    if (!node) return 'no such node';
    removeNode(tables, node);
    return undefined;
  },
  'node.token_created': (tables, { id, node, hash }, { atMs }) => {
    const there = tables.node_token.get(id);
    if (there) return 'the token is there already';
    tables.node_token.put({ id, node, hash: Buffer.from(hash, 'hex'), created_at: atMs, revoked_at: null });
    return undefined;
  },
  'node.token_revoked': (tables, { id }, { atMs }) => {
    const token = tables.node_token.get(id);
    if (!token || token.revoked_at !== null) return 'no such token';
    tables.node_token.update(token, { revoked_at: atMs });
    return undefined;
  },
  'node.joined': (tables, { id, owner, generation }) => {
    const node = tables.node.get(id);
    if (!node) return 'no such node';
    if (generation !== node.generation + 1) return 'another replica was first';
    tables.node.update(node, { owner, generation });
    return undefined;
  },
  'node.health_changed': (tables, data, { atMs }) => {
    const node = tables.node.get(data.id);
    if (!node) return 'no such node';
    if (node.owner !== data.owner || node.generation !== data.generation) return 'not the owner';
    return changeNode(tables, data.id, {
      up: data.up ? 1 : 0,
      loaded: textOfNames(data.models),
      windows: JSON.stringify(data.windows ?? {}),
      image_models: textOfNames(data.imageModels ?? []),
      rerank_models: textOfNames(data.rerankModels ?? []),
      reason: data.reason ?? null,
      changed_at: atMs,
    });
  },
};
