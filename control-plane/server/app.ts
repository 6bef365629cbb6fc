/**
 * The admin API over HTTP: token, one error envelope, OpenAPI document. Routes come from the registries; no policy here.
 * The API is for operators' networks: it listens on loopback unless configured otherwise, and refuses calls without the token.
 */
import swagger from '@fastify/swagger';
import websocket from '@fastify/websocket';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createJsonSchemaTransform } from 'fastify-type-provider-zod';
import { nodeFrameBytesMax } from '../../schemas/node-messages.ts';
import { CommandError } from '../core/command-error.ts';
import { accessDocument, guardRoutes, securitySchemes } from './access.ts';
import { registerActivityRoute } from './activity-route.ts';
import { boundOpenCalls } from './bound-calls.ts';
import { registerCommandRoutes } from './command-routes.ts';
import type { AdminContext } from './context.ts';
import { registerCountersRoute } from './counters-route.ts';
import { registerDoctorRoute } from './doctor-route.ts';
import { registerEventRoutes, registerEventStream } from './event-routes.ts';
import { registerExplainRoutes } from './explain-routes.ts';
import { registerFleetRoutes } from './fleet-routes.ts';
import { registerHistoryRoutes } from './history-routes.ts';
import { answerError, createHttpApp, type HttpListener } from './http-app.ts';
import { registerLimitRoutes } from './limit-routes.ts';
import { registerLinkRoutes } from './link-routes.ts';
import { registerMeRoute } from './me-route.ts';
import { registerNodeRoutes } from './node-routes.ts';
import { registerReadRoutes } from './read-routes.ts';
import { declareResponses } from './responses.ts';
import { registerSignerRoutes } from './signer-routes.ts';
import { registerSnapshotRoute } from './snapshot-route.ts';
import { registerUsageRoutes } from './usage-routes.ts';

const adminPrefix = '/admin/v1';

/** Without `additionalProperties: false` in responses: a client must accept fields of later versions. */
const jsonSchemaTransform = createJsonSchemaTransform({
  zodToJsonConfig: {
    override: ({ zodSchema, jsonSchema }) => {
      const { def } = zodSchema._zod;
      if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties;
    },
  },
});

export type AdminListener = Pick<HttpListener, 'connections' | 'certificate'>;

export async function createAdminApp(
  context: AdminContext,
  listener: AdminListener,
): Promise<FastifyInstance> {
  const app = createHttpApp({
    ...listener,
    ...{ name: 'admin', logger: context.logger, bodies: context.bodies },
  });
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Headgate admin API', version: '1' },
      components: { securitySchemes },
    },
    transform: (route) => {
      const { schema, url } = jsonSchemaTransform(route as Parameters<typeof jsonSchemaTransform>[0]);
      return { url, schema: { ...schema, ...accessDocument(route.route.config?.access) } };
    },
  });
  await app.register(websocket, { options: { maxPayload: nodeFrameBytesMax } });
  guardRoutes(app, context);
  declareResponses(app, adminPrefix);
  app.addHook('onRequest', (request, _reply, done) => done(upgradeFault(request)));
  app.setNotFoundHandler((request, reply) =>
    answerError(
      new CommandError('NotFound', 'no such route in the admin API'),
      request,
      reply,
      context.logger,
    ),
  );
  await app.register(
    (routes, _options, done) => {
      try {
        registerRoutes(routes, context);
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

function registerRoutes(routes: FastifyInstance, context: AdminContext): void {
  const document = { config: { access: 'public' }, schema: { summary: 'This document' } } as const;
  routes.get('/openapi.json', document, () => routes.swagger());
  registerSharedRoutes(routes, context);
  registerEventStream(routes, context);
  registerSnapshotRoute(routes, context);
  registerCountersRoute(routes, context);
}

/** The routes that the console has, too: what a request may do depends on its caller alone. */
export function registerSharedRoutes(routes: FastifyInstance, context: AdminContext): void {
  boundOpenCalls(routes, context);
  registerMeRoute(routes, context);
  registerCommandRoutes(routes, context);
  registerReadRoutes(routes, context);
  registerEventRoutes(routes, context);
  registerHistoryRoutes(routes, context);
  registerDoctorRoute(routes, context);
  registerExplainRoutes(routes, context);
  registerFleetRoutes(routes, context);
  registerSignerRoutes(routes, context);
  registerUsageRoutes(routes, context);
  registerLimitRoutes(routes, context);
  registerLinkRoutes(routes, context);
  registerActivityRoute(routes, context);
}

/** What the WebSocket library would refuse in no envelope, or wait for without end: a body is not read after an upgrade. */
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
