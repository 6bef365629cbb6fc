/**
 * The admin API over HTTP: token, one error envelope, OpenAPI document. Routes come from the registries; no policy here.
 * The API is for operators' networks: it listens on loopback unless configured otherwise, and refuses calls without the token.
 */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import swagger from '@fastify/swagger';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { createJsonSchemaTransform } from 'fastify-type-provider-zod';
import { nodeFrameBytesMax } from '../../schemas/node-messages.ts';
import type { Connections } from '../../shared/runtime/connections.ts';
import { createHttpServer, endWith, headerBytesMax } from '../../shared/runtime/http-server.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { CommandError } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';
import { accessDocument, guardRoutes, securitySchemes } from './access.ts';
import { registerCommandRoutes } from './command-routes.ts';
import type { AdminContext } from './context.ts';
import { registerEventRoutes } from './event-routes.ts';
import { registerFleetRoutes } from './fleet-routes.ts';
import { registerNodeRoutes } from './node-routes.ts';
import { registerReadRoutes } from './read-routes.ts';
import { declareResponses } from './responses.ts';
import { registerSignerRoutes } from './signer-routes.ts';
import { registerSnapshotRoute } from './snapshot-route.ts';
import { registerUsageRoutes } from './usage-routes.ts';

const bodyBytesMax = 8 * 1024 * 1024;
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

/** A client must have sent its headers, and its whole request, within these. */
const headersTimeoutMs = 30_000;
const requestTimeoutMs = 120_000;
const keepAliveTimeoutMs = 75_000;

export interface AdminListener {
  readonly connections: Connections;
  /** Over TLS where there is one. */
  readonly certificate?: Certificate | undefined;
}

export async function createAdminApp(
  context: AdminContext,
  listener: AdminListener,
): Promise<FastifyInstance> {
  const timeouts = { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs };
  const app = Fastify({
    logger: false,
    serverFactory: (handle) => {
      const options = { ...listener, name: 'admin', ...timeouts, requireHostHeader: false } as const;
      return createHttpServer(options, handle).on('checkExpectation', refuseExpectation) as Server;
    },
    clientErrorHandler: refuseUnreadable,
    frameworkErrors: (error, request, reply) => {
      // No hook runs for such a request, so nothing else would end an upgraded socket.
      reply.raw.once('finish', () => request.raw.socket.destroySoon());
      answerError(error, request as FastifyRequest, reply as FastifyReply, context);
    },
    bodyLimit: bodyBytesMax,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 400 },
  }) as unknown as FastifyInstance;
  app.removeContentTypeParser('application/json');
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
  // Commands without a body may still name its type, as most clients do.
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    try {
      done(null, text === '' ? undefined : JSON.parse(String(text)));
    } catch {
      done(new CommandError('InvalidCommand', 'the body is not JSON'));
    }
  });
  guardRoutes(app, context);
  declareResponses(app, adminPrefix);
  app.addHook('onRequest', (request, _reply, done) => done(upgradeFault(request) ?? hostFault(request)));
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, context));
  app.setNotFoundHandler((request, reply) =>
    answerError(new CommandError('NotFound', 'no such route in the admin API'), request, reply, context),
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
  registerCommandRoutes(routes, context);
  registerReadRoutes(routes, context);
  registerEventRoutes(routes, context);
  registerFleetRoutes(routes, context);
  registerSignerRoutes(routes, context);
  registerUsageRoutes(routes, context);
  registerSnapshotRoute(routes, context);
}

/** HTTP/1.1 wants the header (RFC 9112, 3.2); Node's own refusal has no envelope. */
function hostFault({ headers, raw }: FastifyRequest): CommandError | undefined {
  if (headers.host !== undefined || raw.httpVersion === '1.0') return undefined;
  return new CommandError('InvalidCommand', 'the request has no Host header');
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

/** Node's own 417 has no envelope. The client sends its body after an answer, so none is awaited. */
function refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
  const refusal = new CommandError('InvalidCommand', 'no expectation but 100-continue is met');
  response.writeHead(refusal.status, {
    'content-type': 'application/json; charset=utf-8',
    connection: 'close',
  });
  response.end(JSON.stringify(refusal.envelope(request.url?.split('?', 1)[0] ?? '/')));
}

/** Answers what the parser refuses, and closes; the path of such a request cannot be known. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new CommandError('CommandTooLarge', `the headers are larger than ${headerBytesMax} bytes`)
      : new CommandError('InvalidCommand', 'the request is not well-formed HTTP');
  const body = JSON.stringify(refusal.envelope('/'));
  const lines = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  endWith(socket, `${lines.join('\r\n')}\r\n\r\n${body}`);
}

function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  context: AdminContext,
): FastifyReply {
  const path = request.url.split('?', 1)[0] ?? '/';
  const refusal = asCommandError(error);
  if (refusal.type === 'InternalError') context.logger.error({ err: error, path }, 'command failed');
  if (refusal.type === 'Busy') reply.header('retry-after', '5');
  return reply.code(refusal.status).send(refusal.envelope(path));
}

function asCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  const followError = asFollowError(error);
  if (followError) return followError;
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  if (status === 413)
    return new CommandError('CommandTooLarge', `the body is larger than ${bodyBytesMax} bytes`);
  if (status >= 400 && status < 500)
    return new CommandError('InvalidCommand', 'the request cannot be read: send JSON');
  return new CommandError('InternalError', 'internal error; see the log of the control plane');
}
