/**
 * Reads stacks, the pool, nodes and node tokens from the state, in the form of the admin API. Never returns a token's hash.
 */
import type { NodeResource, NodeToken, Pool, Stack } from '../../schemas/admin/admin.ts';
import { nodeStateSchema, nodeTokenStates } from '../../schemas/names.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, first, moment, present, readColumn } from '../../shared/runtime/statements.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import { listNodeIds, listStackModels, toRegistration } from '../../shared/snapshot/effects-capacity.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { Listing } from './list-page.ts';

function toStack(db: Database, { id, organisation, surface }: RowOf<'stack'>): Stack {
  return {
    id,
    organisation,
    surface,
    models: listStackModels(db, id),
    nodes: listNodeIds(db, `stack:${id}`),
  };
}

export function listStacks(db: Database, organisation?: string): Stack[] {
  const rows =
    organisation === undefined
      ? all<RowOf<'stack'>>(db, 'SELECT * FROM stack ORDER BY id')
      : all<RowOf<'stack'>>(db, 'SELECT * FROM stack WHERE organisation = ? ORDER BY id', organisation);
  return rows.map((row) => toStack(db, row));
}

export const stackListing: Listing<RowOf<'stack'>, Stack> = {
  table: 'stack',
  indexed: ['id', 'organisation'],
  sorts: { id: 'id', organisation: 'organisation', surface: 'surface' },
  searched: [
    'id',
    'organisation',
    'surface',
    '(SELECT group_concat(m.model, char(10)) FROM stack_model m WHERE m.stack = id)',
  ],
  key: ['id'],
  item: (row, db) => toStack(db, row),
};

export function findStack(db: Database, id: string): Stack | undefined {
  const row = first<RowOf<'stack'>>(db, 'SELECT * FROM stack WHERE id = ?', id);
  return row && toStack(db, row);
}

export function findPool(db: Database): Pool {
  return {
    models: readColumn(db, 'SELECT model FROM pool_model ORDER BY model'),
    nodes: listNodeIds(db, 'pool'),
  };
}

function toNode(row: RowOf<'node'>): NodeResource {
  const rerankModels = row.up === 1 ? parseColumn(row.rerank_models) : [];
  return {
    ...toRegistration(row),
    drained: row.drained === 1,
    up: row.up === 1,
    loaded: row.up === 1 ? [...parseColumn(row.loaded)] : [],
    ...(rerankModels.length > 0 && { rerankModels: [...rerankModels] }),
    generation: row.generation,
    ...present({ owner: row.owner, reason: row.reason, changedAt: moment(row.changed_at) }),
  };
}

export function listNodes(db: Database): NodeResource[] {
  return all<RowOf<'node'>>(db, 'SELECT * FROM node ORDER BY id').map(toNode);
}

export const nodeListing: Listing<RowOf<'node'>, NodeResource> = {
  table: 'node',
  from: `(SELECT *, CASE WHEN drained = 1 THEN 'drained' WHEN up = 1 THEN 'up' ELSE 'down' END AS state FROM node)`,
  states: nodeStateSchema.options,
  indexed: ['id'],
  sorts: {
    id: 'id',
    state: 'state',
    place: 'place',
    dialect: 'dialect',
    // Uses only the beginning of the column, because a cursor contains the complete sort value.
    loaded: 'substr(loaded, 1, 200)',
    changedAt: 'coalesce(changed_at, 0)',
    owner: "coalesce(owner, '')",
  },
  searched: ['id', 'state', 'place', 'url', 'dialect', 'loaded', 'owner', 'reason'],
  key: ['id'],
  item: toNode,
};

export function findNode(db: Database, id: string): NodeResource | undefined {
  const row = first<RowOf<'node'>>(db, 'SELECT * FROM node WHERE id = ?', id);
  return row && toNode(row);
}

function toToken(row: RowOf<'node_token'>): NodeToken {
  const { id, node } = row;
  return {
    id,
    node,
    createdAt: moment(row.created_at),
    state: row.revoked_at === null ? 'active' : 'revoked',
  };
}

export const tokenListing: Listing<RowOf<'node_token'>, NodeToken> = {
  table: 'node_token',
  owner: 'node',
  from: "(SELECT *, iif(revoked_at IS NULL, 'active', 'revoked') AS state FROM node_token)",
  states: nodeTokenStates,
  indexed: ['id'],
  sorts: { createdAt: 'created_at', id: 'id', state: 'state' },
  searched: ['id', 'state'],
  key: ['id'],
  item: toToken,
};

export function findToken(db: Database, id: string): NodeToken | undefined {
  const row = first<RowOf<'node_token'>>(db, 'SELECT * FROM node_token WHERE id = ?', id);
  return row && toToken(row);
}
