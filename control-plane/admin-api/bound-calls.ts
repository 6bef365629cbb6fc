/** Counts open calls of the admin API and the console by kind, until they are answered or their clients disconnect. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { OpenCall } from '../../schemas/admin/admin-row.ts';
import { callerName, membershipsOf } from '../commands/authorise.ts';
import { type AdminContext, requestCaller } from './context.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Kind of the route's open calls. By default a GET is a `read`, or a `question` if it asks about a moment. */
    opens?: OpenCall;
  }
}

function classifyCall({ routeOptions, method, query }: FastifyRequest): OpenCall | undefined {
  const { access, opens } = routeOptions.config;
  // Calls of nodes and gateways are not counted here, because agent sessions and downloads per address have other limits.
  if (access === undefined || access === 'public' || access === 'node' || access === 'gateway')
    return undefined;
  if (opens !== undefined) return opens;
  if (method !== 'GET' && method !== 'HEAD') return undefined;
  return typeof query === 'object' && query !== null && 'at' in query ? 'question' : 'read';
}

/** Limits the open calls of routes that are added afterwards. It must be called after callers are identified. */
export function boundOpenCalls(
  app: FastifyInstance,
  context: Pick<AdminContext, 'snapshot' | 'openCalls'>,
): void {
  app.addHook('onRequest', (request, reply, done) => {
    const kind = classifyCall(request);
    try {
      if (kind !== undefined) begin(kind, request, reply, context);
      done();
    } catch (error) {
      done(error as Error);
    }
  });
}

function begin(
  kind: OpenCall,
  request: FastifyRequest,
  reply: FastifyReply,
  { snapshot, openCalls }: Pick<AdminContext, 'snapshot' | 'openCalls'>,
): void {
  const { actor, session } = requestCaller(request);
  const person = actor.person === undefined ? undefined : callerName(actor);
  const organisations = membershipsOf(snapshot.db, actor).map(({ organisation }) => organisation);
  // Watches the socket of an upgraded request, because the response to an upgrade ends before the socket does.
  const connection = request.ws ? request.raw.socket : reply.raw;
  const end = openCalls.begin(kind, { person, session }, organisations, () => connection.destroy());
  connection.once('close', end);
  if (request.raw.socket.destroyed) end();
}
