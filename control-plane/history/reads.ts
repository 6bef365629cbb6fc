/** All reads of the state: a table of paths and views, for the present and for the past. */
import { z } from 'zod';
import type { NodeResource } from '../../schemas/admin.ts';
import { idSchema, modelIdSchema, stackIdSchema, tierIdSchema } from '../../schemas/names.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { exportFleet } from '../commands/fleet.ts';
import {
  findNode,
  findPool,
  findStack,
  findToken,
  listNodes,
  listStacks,
  listTokens,
} from '../state/capacity.ts';
import { findAnonymous, findModel, findTier, listModels, listTiers } from '../state/catalog.ts';
import { findKey, findOrganisation, listKeys, listMembers, listOrganisations } from '../state/tenants.ts';

/** What a read depends on in addition to the path. */
export interface ReadQuery {
  readonly organisation?: string | undefined;
  readonly limit?: number | undefined;
  /** The clock by which a key has expired. */
  readonly nowMs: number;
}

interface StateRead {
  readonly path: string;
  readonly summary: string;
  readonly params?: z.ZodObject;
  /** The organisation whose members may read it; undefined: operators only. */
  organisationOf?(db: Database, params: Record<string, string>, query: ReadQuery): string | undefined;
  /** A list, a resource, or undefined where it does not exist. `live` adds what an agent reported last. */
  read(
    db: Database,
    params: Record<string, string>,
    query: ReadQuery,
    live: (node: NodeResource) => NodeResource,
  ): readonly unknown[] | object | undefined;
}

const byId = z.object({ id: idSchema });
const own = (_db: Database, _params: Record<string, string>, query: ReadQuery): string | undefined =>
  query.organisation;
const id = (params: Record<string, string>): string => params['id'] ?? '';

export const stateReads: readonly StateRead[] = [
  {
    path: '/organisations',
    summary: 'List organisations',
    read: (db, _p, q) => listOrganisations(db, q.limit),
  },
  {
    path: '/organisations/:id',
    summary: 'One organisation',
    params: byId,
    organisationOf: (_db, p) => id(p),
    read: (db, p) => findOrganisation(db, id(p)),
  },
  {
    path: '/members',
    summary: 'List members',
    organisationOf: own,
    read: (db, _p, q) => listMembers(db, q.organisation, q.limit),
  },
  { path: '/tiers', summary: 'List tiers, lowest first', read: (db, _p, q) => listTiers(db, q.limit) },
  {
    path: '/tiers/:id',
    summary: 'One tier',
    params: z.object({ id: tierIdSchema }),
    read: (db, p) => findTier(db, id(p)),
  },
  { path: '/anonymous', summary: 'Limits of visitors', read: (db) => findAnonymous(db) },
  { path: '/models', summary: 'List the catalog', read: (db, _p, q) => listModels(db, q.limit) },
  {
    path: '/models/:id',
    summary: 'One model',
    params: z.object({ id: modelIdSchema }),
    read: (db, p) => findModel(db, id(p)),
  },
  {
    path: '/keys',
    summary: 'List keys, without their values',
    organisationOf: own,
    read: (db, _p, q) => listKeys(db, q.nowMs, q.organisation, q.limit),
  },
  {
    path: '/keys/:id',
    summary: 'One key',
    params: byId,
    organisationOf: (db, p, q) => findKey(db, id(p), q.nowMs)?.organisation,
    read: (db, p, q) => findKey(db, id(p), q.nowMs),
  },
  {
    path: '/stacks',
    summary: 'List stacks',
    organisationOf: own,
    read: (db, _p, q) => listStacks(db, q.organisation, q.limit),
  },
  {
    path: '/stacks/:id',
    summary: 'One stack',
    params: z.object({ id: stackIdSchema }),
    organisationOf: (db, p) => findStack(db, id(p))?.organisation,
    read: (db, p) => findStack(db, id(p)),
  },
  { path: '/pool', summary: 'The shared pool', read: (db) => findPool(db) },
  {
    path: '/nodes',
    summary: 'List nodes',
    read: (db, _p, q, live) => listNodes(db, q.limit).map(live),
  },
  {
    path: '/nodes/:id',
    summary: 'One node',
    params: byId,
    read: (db, p, _q, live) => {
      const node = findNode(db, id(p));
      return node && live(node);
    },
  },
  {
    path: '/nodes/:id/tokens',
    summary: 'Tokens of a node',
    params: byId,
    read: (db, p, q) => listTokens(db, id(p), q.limit),
  },
  { path: '/tokens/:id', summary: 'One token', params: byId, read: (db, p) => findToken(db, id(p)) },
  { path: '/fleet', summary: 'The fleet file of this state', read: (db) => exportFleet(db) },
];
