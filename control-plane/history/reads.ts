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
  listTokens,
  nodeListing,
  stackListing,
} from '../state/capacity.ts';
import { findAnonymous, findBounds, findModel, findTier, listTiers, modelListing } from '../state/catalog.ts';
import { type ListPage, listPage, type PageQuery } from '../state/list-page.ts';
import {
  findKey,
  findOrganisation,
  keyListing,
  memberListing,
  organisationListing,
} from '../state/tenants.ts';

/** What a read depends on in addition to the path. */
export type ReadQuery = PageQuery;

interface StateRead {
  readonly path: string;
  readonly summary: string;
  readonly params?: z.ZodObject;
  /** A list that takes `text`, `sort` and `after`. */
  readonly isPaged?: true;
  /** The organisation whose members may read it; undefined: operators only. */
  organisationOf?(db: Database, params: Record<string, string>, query: ReadQuery): string | undefined;
  /** A list, a resource, or undefined where it does not exist. `live` adds what an agent reported last. */
  read(
    db: Database,
    params: Record<string, string>,
    query: ReadQuery,
    live: (node: NodeResource) => NodeResource,
  ): ListPage<unknown> | readonly unknown[] | object | undefined;
}

const byId = z.object({ id: idSchema });
const own = (_db: Database, _params: Record<string, string>, query: ReadQuery): string | undefined =>
  query.organisation;
const id = (params: Record<string, string>): string => params['id'] ?? '';

export const stateReads: readonly StateRead[] = [
  {
    path: '/organisations',
    summary: 'List organisations',
    isPaged: true,
    read: (db, _p, q) => listPage(db, organisationListing, { ...q, organisation: undefined }),
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
    isPaged: true,
    organisationOf: own,
    read: (db, _p, q) => listPage(db, memberListing, q),
  },
  { path: '/tiers', summary: 'List tiers, lowest first', read: (db, _p, q) => listTiers(db, q.limit) },
  {
    path: '/tiers/:id',
    summary: 'One tier',
    params: z.object({ id: tierIdSchema }),
    read: (db, p) => findTier(db, id(p)),
  },
  { path: '/anonymous', summary: 'Limits of visitors', read: (db) => findAnonymous(db) },
  { path: '/bounds', summary: 'What members may do', read: findBounds },
  {
    path: '/models',
    summary: 'List the catalog',
    isPaged: true,
    read: (db, _p, q) => listPage(db, modelListing, { ...q, organisation: undefined }),
  },
  {
    path: '/models/:id',
    summary: 'One model',
    params: z.object({ id: modelIdSchema }),
    read: (db, p) => findModel(db, id(p)),
  },
  {
    path: '/keys',
    summary: 'List keys, without their values',
    isPaged: true,
    organisationOf: own,
    read: (db, _p, q) => listPage(db, keyListing, q),
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
    isPaged: true,
    organisationOf: own,
    read: (db, _p, q) => listPage(db, stackListing, q),
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
    isPaged: true,
    read: (db, _p, q, live) => listPage(db, nodeListing, { ...q, organisation: undefined }).map(live),
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
