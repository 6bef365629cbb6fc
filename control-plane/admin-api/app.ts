/**
 * Serves the admin API over HTTP, with routes from the table of operations. It must not contain policy, which belongs to
 * commands and queries. The API is meant for operators' networks, so it listens on loopback by default.
 */
import websocket from '@fastify/websocket';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { adminPrefix } from '../../schemas/admin/admin-routes.ts';
import { nodeFrameBytesMax } from '../../schemas/records/node-messages.ts';
import { CommandError } from '../core/command-error.ts';
import { guardRoutes } from './access.ts';
import { boundOpenCalls } from './bound-calls.ts';
import { changeHandlers } from './change-routes.ts';
import { addCommands, planHandlers } from './command-routes.ts';
import { type AdminContext, requestActor } from './context.ts';
import { counterHandlers } from './counters-route.ts';
import { doctorHandlers } from './doctor-route.ts';
import { effectHandlers } from './effect-route.ts';
import { eventHandlers, registerEventStream } from './event-routes.ts';
import { decisionHandlers } from './explain-routes.ts';
import { fleetHandlers } from './fleet-routes.ts';
import { addUndo, historyHandlers } from './history-routes.ts';
import { answerError, createHttpApp, type HttpListener } from './http-app.ts';
import { limitHandlers } from './limit-routes.ts';
import { linkHandlers } from './link-routes.ts';
import { meHandlers } from './me-route.ts';
import { registerNodeRoutes } from './node-routes.ts';
import { type ApiDocument, buildDocument } from './open-api.ts';
import {
  addHandlers,
  type OperationHandlers,
  type ProgramName,
  refuseOthers,
  type SharedName,
} from './operations.ts';
import { addReads } from './read-routes.ts';
import { followRequests, requestHandlers } from './request-routes.ts';
import { signerHandlers } from './signer-routes.ts';
import { snapshotHandlers } from './snapshot-route.ts';
import { activityHandlers, trafficHandlers } from './traffic-route.ts';
import { usageHandlers } from './usage-routes.ts';

export type AdminListener = Pick<HttpListener, 'connections' | 'certificate'>;

export async function createAdminApp(
  context: AdminContext,
  listener: AdminListener,
): Promise<FastifyInstance> {
  const app = createHttpApp({
    ...listener,
    ...{ name: 'admin', logger: context.logger, bodies: context.bodies },
  });
  const document = buildDocument(app);
  await app.register(websocket, { options: { maxPayload: nodeFrameBytesMax } });
  guardRoutes(app, context);
  refuseOthers(app);
  app.addHook('onRequest', (request, _reply, done) => done(upgradeFault(request)));
  app.setNotFoundHandler((request, reply) =>
    answerError(
      new CommandError('NotFound', 'the admin API has no such route'),
      request,
      reply,
      context.logger,
    ),
  );
  await app.register(
    (routes, _options, done) => {
      try {
        registerRoutes(routes, context, document);
        done();
      } catch (error) {
        done(error instanceof Error ? error : new Error(String(error)));
      }
    },
    { prefix: adminPrefix },
  );
  registerNodeRoutes(app, context);
  return app;
}

function registerRoutes(routes: FastifyInstance, context: AdminContext, document: () => ApiDocument): void {
  const ofPrograms: OperationHandlers<Exclude<ProgramName, 'event.tail'>> = {
    'document.get': document,
    ...snapshotHandlers(context),
    ...counterHandlers(context),
    'request.tail': ({ query, request, reply }) => {
      const actor = requestActor(request);
      return followRequests(reply, context, { actor, query, mayFollow: () => true });
    },
  };
  registerSharedRoutes(routes, context);
  registerEventStream(routes, context);
  addHandlers(routes, ofPrograms);
}

/** Registers the routes that the console serves too. A caller has the same rights on both listeners. */
export function registerSharedRoutes(routes: FastifyInstance, context: AdminContext): void {
  boundOpenCalls(routes, context);
  const handlers: OperationHandlers<SharedName> = {
    ...meHandlers(context),
    ...planHandlers(context),
    ...eventHandlers(context),
    ...historyHandlers(context),
    ...doctorHandlers(context),
    ...effectHandlers(context),
    ...decisionHandlers(context),
    ...fleetHandlers(context),
    ...changeHandlers(context),
    ...signerHandlers(context),
    ...usageHandlers(context),
    ...limitHandlers(context),
    ...linkHandlers(context),
    ...activityHandlers(context),
    ...requestHandlers(context),
    ...trafficHandlers(context),
  };
  addHandlers(routes, handlers);
  addCommands(routes, context);
  addReads(routes, context);
  addUndo(routes, context);
}

/** Refuses upgrades to which the WebSocket library would respond without our error envelope, or never respond at all. */
function upgradeFault({ ws, method, headers }: FastifyRequest): CommandError | undefined {
  if (!ws) return undefined;
  if (method !== 'GET') return new CommandError('InvalidCommand', 'only a GET can be upgraded');
  const isWebSocket =
    headers.upgrade?.toLowerCase() === 'websocket' &&
    /^[+/0-9A-Za-z]{22}==$/.test(String(headers['sec-websocket-key'])) &&
    (headers['sec-websocket-version'] === '13' || headers['sec-websocket-version'] === '8');
  return isWebSocket
    ? undefined
    : new CommandError('InvalidCommand', 'the upgrade is not a WebSocket handshake of version 13');
}
