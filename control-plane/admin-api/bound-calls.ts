/** Counts each open call of an admin API or console against the bounds of its kind, until its client has the answer or leaves. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { OpenCall } from '../../schemas/admin/admin-row.ts';
import { callerName, membershipsOf } from '../commands/authorise.ts';
import { type AdminContext, requestCaller } from './context.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What an open call of the route counts as; absent: a GET is a `read`, or a `question` where it names a moment. */
    opens?: OpenCall;
  }
}

function classifyCall({ routeOptions, method, query }: FastifyRequest): OpenCall | undefined {
  const { access, opens } = routeOptions.config;
  // Nodes and gateways are bounded by what they are: sessions of agents, downloads of an address.
  if (access === undefined || access === 'public' || access === 'node' || access === 'gateway')
    return undefined;
  if (opens !== undefined) return opens;
  if (method !== 'GET' && method !== 'HEAD') return undefined;
  return typeof query === 'object' && query !== null && 'at' in query ? 'question' : 'read';
}

/** Call it once callers are identified, and before the routes are added. */
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
  // The answer of an upgrade ends before its socket does.
  const connection = request.ws ? request.raw.socket : reply.raw;
  const end = openCalls.begin(kind, { person, session }, organisations, () => connection.destroy());
  connection.once('close', end);
  if (request.raw.socket.destroyed) end();
}
