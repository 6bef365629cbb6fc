/** Routes of all reads of the state: a table of paths and views. Members see what belongs to their organisation. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { idSchema, modelIdSchema, stackIdSchema, tierIdSchema } from '../../schemas/names.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { authorise, readingRoles } from '../commands/authorise.ts';
import { exportFleet } from '../commands/fleet.ts';
import { CommandError } from '../core/command-error.ts';
import type { LiveNodes } from '../nodes/live-nodes.ts';
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
import { type AdminContext, actorOf, parseQuery, readQuerySchema, stateFor } from './context.ts';

type ReadQuery = z.output<typeof readQuerySchema>;

interface ReadRoute {
  readonly path: string;
  readonly summary: string;
  readonly params?: z.ZodObject;
  /** The organisation whose members may read it; undefined: operators only. */
  organisationOf?(db: Database, params: Record<string, string>, query: ReadQuery): string | undefined;
  /** A list, a resource, or undefined where it does not exist. */
  read(
    db: Database,
    params: Record<string, string>,
    query: ReadQuery,
    now: LiveNodes | undefined,
  ): readonly unknown[] | object | undefined;
}

const byId = z.object({ id: idSchema });
const own = (_db: Database, _params: Record<string, string>, query: ReadQuery): string | undefined =>
  query.organisation;
const id = (params: Record<string, string>): string => params['id'] ?? '';

const reads: readonly ReadRoute[] = [
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
    read: (db, _p, q) => listKeys(db, Date.now(), q.organisation, q.limit),
  },
  {
    path: '/keys/:id',
    summary: 'One key',
    params: byId,
    organisationOf: (db, p) => findKey(db, id(p), Date.now())?.organisation,
    read: (db, p) => findKey(db, id(p), Date.now()),
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
    read: (db, _p, q, now) => listNodes(db, q.limit).map((node) => now?.with(node) ?? node),
  },
  {
    path: '/nodes/:id',
    summary: 'One node',
    params: byId,
    read: (db, p, _q, now) => {
      const node = findNode(db, id(p));
      return node && (now?.with(node) ?? node);
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

export function registerReadRoutes(app: FastifyInstance, context: AdminContext): void {
  for (const route of reads) {
    app.route({
      method: 'GET',
      url: route.path,
      config: { access: route.organisationOf ? readingRoles : 'operator' },
      schema: {
        summary: route.summary,
        querystring: readQuerySchema,
        ...(route.params && { params: route.params }),
      },
      validatorCompiler: () => (data: unknown) => ({ value: data }),
      handler: (request) => answer(context, route, request),
    });
  }
}

async function answer(context: AdminContext, route: ReadRoute, request: FastifyRequest): Promise<object> {
  const query = parseQuery(readQuerySchema, request.query);
  const params = (route.params ? parseQuery(route.params, request.params) : {}) as Record<string, string>;
  const snapshot = await stateFor(context, query);
  const { organisationOf } = route;
  const roles = organisationOf ? readingRoles : 'operator';
  // The present role counts: a former member cannot read past states either.
  const { db } = context.snapshot;
  authorise(db, actorOf(request), roles, () => organisationOf?.(snapshot.db, params, query));
  // Live fields belong to the present state only.
  const found = route.read(snapshot.db, params, query, query.at === undefined ? context.live : undefined);
  if (found === undefined)
    throw new CommandError(
      'NotFound',
      `there is no ${route.summary.toLowerCase().replace(/^one /, '')} under this id`,
    );
  return Array.isArray(found) ? { items: found, position: snapshot.seq } : found;
}
