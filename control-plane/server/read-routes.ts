/** Routes of all reads of the state, in the present and in the past. Members see what belongs to their organisation. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { NodeResource } from '../../schemas/admin.ts';
import { authorise, readingRoles } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { stateReads } from '../history/reads.ts';
import { ListPage } from '../state/list-page.ts';
import {
  type AdminContext,
  actorOf,
  foldedUpTo,
  pageQuerySchema,
  parseQuery,
  pastReaderOf,
  readQuerySchema,
} from './context.ts';

type StateRead = (typeof stateReads)[number];

export function registerReadRoutes(app: FastifyInstance, context: AdminContext): void {
  for (const route of stateReads) {
    app.route({
      method: 'GET',
      url: route.path,
      config: { access: route.organisationOf ? readingRoles : 'operator', past: true },
      schema: {
        summary: route.summary,
        querystring: route.isPaged ? pageQuerySchema : readQuerySchema,
        ...(route.params && { params: route.params }),
      },
      validatorCompiler: () => (data: unknown) => ({ value: data }),
      handler: (request, reply) => answer(context, route, request, reply),
    });
  }
}

async function answer(
  context: AdminContext,
  route: StateRead,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { at, min, ...asked } = parseQuery(route.isPaged ? pageQuerySchema : readQuerySchema, request.query);
  const params = (route.params ? parseQuery(route.params, request.params) : {}) as Record<string, string>;
  await foldedUpTo(context, min);
  const roles = route.organisationOf ? readingRoles : 'operator';
  // The present role counts: a former member cannot read past states either.
  const authorised = (owner: () => string | undefined): void =>
    authorise(context.snapshot.db, actorOf(request), roles, owner);
  if (at === undefined) {
    const { db, seq } = context.snapshot;
    const query = { ...asked, nowMs: Date.now() };
    authorised(() => route.organisationOf?.(db, params, query));
    const found = route.read(db, params, query, (node: NodeResource) => context.live.with(node));
    if (found === undefined) throw notFound(route);
    if (found instanceof ListPage) return { ...found, position: seq };
    return Array.isArray(found) ? { items: found, position: seq } : found;
  }
  const reader = pastReaderOf(request, reply);
  const { seq, nowMs } = await context.past.moment(at, reader);
  const read = await context.past.ask('read', [seq, route.path, params, { ...asked, nowMs }], reader);
  authorised(() => read.organisation);
  if (read.found === undefined) throw notFound(route);
  reply.type('application/json; charset=utf-8').serializer((text: unknown) => String(text));
  return reply.send(read.isList ? `${read.found.slice(0, -1)},"position":${seq}}` : read.found);
}

function notFound({ summary }: StateRead): CommandError {
  return new CommandError(
    'NotFound',
    `there is no ${summary.toLowerCase().replace(/^one /, '')} under this id`,
  );
}
