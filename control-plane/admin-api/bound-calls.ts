/** Counts each open call of an admin API or console against the bound of its kind until its client is answered or leaves. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { OpenCall } from '../../schemas/admin/admin-row.ts';
import { callerName, membershipsOf } from '../commands/authorise.ts';
import { type AdminContext, requestCaller } from './context.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Kind of the route's open calls. By default a GET is a `read`, or a `question` if it names a moment. */
    opens?: OpenCall;
  }
}

function classifyCall({ routeOptions, method, query }: FastifyRequest): OpenCall | undefined {
  const { access, opens } = routeOptions.config;
  // Nodes and gateways have bounds of their own: on agent sessions, and on downloads per address.
  if (access === undefined || access === 'public' || access === 'node' || access === 'gateway')
    return undefined;
  if (opens !== undefined) return opens;
  if (method !== 'GET' && method !== 'HEAD') return undefined;
  return typeof query === 'object' && query !== null && 'at' in query ? 'question' : 'read';
}

/** Bounds the open calls of the routes that are added later. Call it once callers are identified. */
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
  // The response to an upgrade ends before its socket does, so watch the socket.
  const connection = request.ws ? request.raw.socket : reply.raw;
  const end = openCalls.begin(kind, { person, session }, organisations, () => connection.destroy());
  connection.once('close', end);
  if (request.raw.socket.destroyed) end();
}
