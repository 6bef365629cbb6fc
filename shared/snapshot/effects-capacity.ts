/** Effects of events about stacks, the pool and nodes, including the routes derived from nodes. */
import { type Place, type PlaceKey, placeKey } from '../../schemas/names.ts';
import type { Database } from '../runtime/sqlite.ts';
import { present, readColumn } from '../runtime/statements.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import {
  type EventEffects,
  type EventSkipReason,
  type Inverse,
  inverse,
  removeAll,
  rowSource,
  undo,
} from './effect.ts';
import { refreshRoutes } from './routes.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

export function removeNode(tables: TableViews, node: RowOf<'node'>): undefined {
  removeAll(tables.node_token.where('node', node.id), (row) => tables.node_token.remove(row));
  removeAll(tables.routes.where('node', node.id), (row) => tables.routes.remove(row));
  tables.node.remove(node);
}

export function removeStack(tables: TableViews, stack: RowOf<'stack'>): undefined {
  removeAll(tables.stack_model.where('stack', stack.id), (row) => tables.stack_model.remove(row));
  removeAll(tables.node.where('place', `stack:${stack.id}`), (row) => removeNode(tables, row));
  tables.stack.remove(stack);
}

/** Formats a list of names for a column, as sorted JSON without duplicates. */
export function formatNames(names: readonly string[]): string {
  return JSON.stringify([...new Set(names)].sort());
}

function changeNode(tables: TableViews, id: string, change: Partial<RowOf<'node'>>): EventSkipReason {
  const node = tables.node.get(id);
  if (!node) return 'no such node';
  const after = { ...node, ...change };
  tables.node.put(after);
  return refreshRoutes(tables, after);
}

function parsePlace(key: PlaceKey): Place {
  const [kind, id = ''] = key.split(':', 2);
  return kind === 'stack' || kind === 'organisation' ? { kind, id } : { kind: 'pool' };
}

export function listStackModels(db: Database, stack: string): string[] {
  return readColumn(db, 'SELECT model FROM stack_model WHERE stack = ? ORDER BY model', stack);
}

export function listNodeIds(db: Database, place: PlaceKey): string[] {
  return readColumn(db, 'SELECT id FROM node WHERE place = ? ORDER BY id', place);
}

const stacks = rowSource('stack', ({ id, organisation, surface }) => ({ id, organisation, surface }));
const stackModels = rowSource('stack_model', ({ stack, model }) => ({ stack, model }));
const poolModels = rowSource('pool_model', ({ model }) => ({ model }));
/** Converts a node's row back to the data of the event that registered it. */
export function toRegistration({ id, place, url, dialect, credential, models, agent }: RowOf<'node'>) {
  return {
    ...{ id, place: parsePlace(place), url, dialect },
    ...present({ credential, models: models === null ? null : parseColumn(models) }),
    agent: agent === 1,
  };
}
const nodes = rowSource('node', toRegistration);
const drains = rowSource('node', ({ id, drained }) => (drained === 1 ? { id } : undefined));
const createdTokens = rowSource('node_token', ({ id, node, hash }) => ({
  id,
  node,
  hash: hash.toString('hex'),
}));
const revokedTokens = rowSource('node_token', ({ id, revoked_at: revokedAt }) =>
  revokedAt === null ? undefined : { id },
);

const noReport = 'it is a report, which the next report replaces';

function inverseInPool(name: 'pool.install' | 'pool.uninstall'): Inverse<{ readonly model: string }> {
  return inverse(
    (db, { model }) => poolModels.at(db, model),
    (_was, { model }) => undo(name, { model }),
  );
}

function inverseOnStack(
  name: 'stack.install' | 'stack.uninstall',
): Inverse<{ readonly stack: string; readonly model: string }> {
  return inverse(
    (db, { stack, model }) => stacks.at(db, stack) && [stackModels.at(db, stack, model)],
    (_was, { stack: id, model }) => undo(name, { id, model }),
  );
}

function inverseOfDrain(name: 'node.drain' | 'node.undrain'): Inverse<{ readonly id: string }> {
  return inverse(
    (db, { id }) => nodes.at(db, id) && [drains.at(db, id)],
    (_was, { id }) => undo(name, { id }),
  );
}

export const capacityEffects = {
  'stack.created': {
    fold: (tables, { id, organisation, surface }, { atMs }) => {
      if (tables.stack.get(id)) return 'the stack is there already';
      return tables.stack.put({ id, organisation, surface, created_at: atMs });
    },
    inverse: inverse(
      (db, { id }) => {
        const stack = stacks.at(db, id);
        return (
          stack && { ...stack, models: listStackModels(db, id), nodeIds: listNodeIds(db, `stack:${id}`) }
        );
      },
      (_was, { id }) => undo('stack.delete', { id }),
    ),
    explains: ['stack', 'surface_set_at'],
  },
  'stack.surface_set': {
    fold: (tables, { id, surface }) => {
      const stack = tables.stack.get(id);
      if (!stack) return 'no such stack';
      return tables.stack.update(stack, { surface });
    },
    inverse: inverse(
      (db, { id }) => stacks.at(db, id)?.surface,
      (surface, { id }) => (surface ? undo('stack.set-surface', { id, surface }) : 'there was no such stack'),
    ),
    explains: ['stack', 'surface_set_at'],
  },
  'stack.removed': {
    fold: (tables, { id }) => {
      const stack = tables.stack.get(id);
      if (!stack) return 'no such stack';
      return removeStack(tables, stack);
    },
    inverse: 'its nodes and models were removed with it; apply the fleet file of the previous position',
    explains: ['stack'],
  },
  'stack.model_installed': {
    fold: (tables, { stack, model }) => tables.stack_model.put({ stack, model }),
    inverse: inverseOnStack('stack.uninstall'),
    explains: ['stack_model'],
  },
  'stack.model_uninstalled': {
    fold: (tables, { stack, model }) => tables.stack_model.remove({ stack, model }),
    inverse: inverseOnStack('stack.install'),
    explains: ['stack_model'],
  },
  'pool.model_installed': {
    fold: (tables, { model }) => tables.pool_model.put({ model }),
    inverse: inverseInPool('pool.uninstall'),
    explains: ['pool_model'],
  },
  'pool.model_uninstalled': {
    fold: (tables, { model }) => tables.pool_model.remove({ model }),
    inverse: inverseInPool('pool.install'),
    explains: ['pool_model'],
  },
  'node.registered': {
    fold: (tables, data) => {
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
        // A node with a new address must be found healthy first. Its generation stays, so that former owners cannot report on
        // it.
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
      return refreshRoutes(tables, row);
    },
    inverse: inverse(
      (db, { id }) => nodes.at(db, id),
      (was, { id }) => (was ? undo('node.register', was) : undo('node.delete', { id })),
    ),
    explains: ['node', 'up_set_at', 'loaded_set_at'],
  },
  'node.drained': {
    fold: (tables, { id }) => changeNode(tables, id, { drained: 1 }),
    inverse: inverseOfDrain('node.undrain'),
    explains: ['node', 'drained_set_at'],
  },
  'node.undrained': {
    fold: (tables, { id }) => changeNode(tables, id, { drained: 0 }),
    inverse: inverseOfDrain('node.drain'),
    explains: ['node', 'drained_set_at'],
  },
  'node.removed': {
    fold: (tables, { id }) => {
      const node = tables.node.get(id);
      if (!node) return 'no such node';
      return removeNode(tables, node);
    },
    inverse: inverse(
      (db, { id }) => nodes.at(db, id),
      (was) => {
        if (was?.agent) return 'its tokens were removed with it; register the node again';
        return was ? undo('node.register', was) : 'there was no such node';
      },
    ),
    explains: ['node'],
  },
  'node.token_created': {
    fold: (tables, { id, node, hash }, { atMs }) => {
      const there = tables.node_token.get(id);
      if (there) return 'the token is there already';
      return tables.node_token.put({
        id,
        node,
        hash: Buffer.from(hash, 'hex'),
        created_at: atMs,
        revoked_at: null,
      });
    },
    inverse: inverse(
      (db, { id }) => createdTokens.at(db, id) && [revokedTokens.at(db, id)],
      (_was, { id }) => undo('node-token.revoke', { id }),
    ),
    explains: ['node_token'],
  },
  'node.token_revoked': {
    fold: (tables, { id }, { atMs }) => {
      const token = tables.node_token.get(id);
      if (!token || token.revoked_at !== null) return 'no such token';
      return tables.node_token.update(token, { revoked_at: atMs });
    },
    inverse: 'a revoked token stays revoked; create a new one',
    explains: ['node_token'],
  },
  'node.joined': {
    fold: (tables, { id, owner, generation }) => {
      const node = tables.node.get(id);
      if (!node) return 'no such node';
      if (generation !== node.generation + 1) return 'another replica was first';
      return tables.node.update(node, { owner, generation });
    },
    inverse: noReport,
    explains: ['node'],
  },
  'node.health_changed': {
    fold: (tables, data, { atMs }) => {
      const node = tables.node.get(data.id);
      if (!node) return 'no such node';
      if (node.owner !== data.owner || node.generation !== data.generation) return 'not the owner';
      return changeNode(tables, data.id, {
        up: data.up ? 1 : 0,
        loaded: formatNames(data.models),
        windows: JSON.stringify(data.windows ?? {}),
        image_models: formatNames(data.imageModels ?? []),
        rerank_models: formatNames(data.rerankModels ?? []),
        reason: data.reason ?? null,
        changed_at: atMs,
      });
    },
    inverse: noReport,
    explains: ['node', 'up_set_at', 'loaded_set_at'],
  },
} as const satisfies Partial<EventEffects>;
