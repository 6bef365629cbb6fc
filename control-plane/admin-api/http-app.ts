/** Common parts of a control plane's HTTP servers: limits, JSON bodies, and one error envelope for all layers. */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import type { Connections, ListenerName } from '../../shared/runtime/connections.ts';
import { writeAndClose } from '../../shared/runtime/end-with.ts';
import { createHttpServer, headerBytesMax, type ParserError } from '../../shared/runtime/http-server.ts';
import { type ListenAddress, listenError } from '../../shared/runtime/listener.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import type { BodyBudgets } from '../core/body-limits.ts';
import { CommandError, type CommandErrorType } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';
import { readBodies } from './request-bodies.ts';

/** Time limits in ms for receiving a request's headers and, with `requestTimeoutMs`, the whole request. */
const headersTimeoutMs = 30_000;
const requestTimeoutMs = 60_000;
/** Maximum number of requests handled in one turn of the event loop, because listing a large fleet takes about 10 ms. */
const handledMax = 8;

export interface HttpListener {
  readonly name: ListenerName;
  readonly connections: Connections;
  /** Certificate for TLS, or undefined for plain HTTP. */
  readonly certificate?: Certificate | undefined;
  readonly logger: Logger;
  readonly bodies: BodyBudgets;
}

/** Replaces Fastify's compilers, which slow down startup. Requests are parsed once, by code that reports every fault. */
export const compilersFactory: object = {
  buildValidator: () => () => (data: unknown) => ({ value: data }),
  buildSerializer: () => () => (answer: unknown) => JSON.stringify(answer),
};

export function createHttpApp({ logger, bodies, ...listener }: HttpListener): FastifyInstance {
  const { keepAliveMs: keepAliveTimeoutMs } = listener.connections;
  const timeouts = { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs };
  const app = Fastify({
    logger: false,
    serverFactory: (handle) => {
      const options = { ...listener, ...timeouts, handlesContinue: true, handledMax };
      const refusals = { badHttp: refuseHead, unreadable: refuseUnreadable };
      return createHttpServer({ ...options, ...refusals }, handle) as Server;
    },
    // `createHttpServer` responds to client errors, so Fastify must not.
    clientErrorHandler: () => undefined,
    frameworkErrors: (error, request, reply) => {
      // No hook runs after a framework error, so nothing else would end an upgraded socket.
      reply.raw.once('finish', () => request.raw.socket.destroySoon());
      reply.header('connection', 'close');
      answerError(error, request as FastifyRequest, reply as FastifyReply, logger);
    },
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 400 },
    schemaController: { compilersFactory },
  }) as unknown as FastifyInstance;
  readBodies(app, bodies);
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, logger));
  return app;
}

/** Address to listen on, and the name of the option that sets its port. */
export interface AppAddress extends ListenAddress {
  readonly portFlag: string;
}

/** Starts listening, and registers the app with `closers`. */
export async function openHttpApp(
  app: FastifyInstance,
  { host, port, portFlag }: AppAddress,
  closers: Closers,
): Promise<AddressInfo> {
  closers.add(() => app.close());
  await app.listen({ host, port }).catch((error: unknown) => {
    throw listenError(error, { host, port }, { bind: '--bind', port: portFlag });
  });
  return app.server.address() as AddressInfo;
}

/** Sockets whose last request had an invalid head. If the parser then reports an error too, no second response is sent. */
const refused = new WeakSet<Socket>();

/** Refuses a request whose head is ambiguous, before Fastify reads it. */
function refuseHead({ socket }: IncomingMessage, response: ServerResponse, fault: string): void {
  refused.add(socket);
  const message = `${fault.charAt(0).toLowerCase()}${fault.slice(1, -1)}`;
  const refusal = new CommandError('InvalidCommand', message);
  response.writeHead(refusal.status, { 'content-type': 'application/json; charset=utf-8' });
  response.end(JSON.stringify(refusal.envelope('/')));
}

/** Responds to a request that the parser refuses, and closes the connection. The path of the request is not known. */
function refuseUnreadable(error: ParserError, socket: Socket): void {
  if (refused.has(socket)) {
    socket.destroySoon();
    return;
  }
  const refusal = parserRefusal(error.code);
  const body = JSON.stringify(refusal.envelope('/'));
  const lines = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  writeAndClose(socket, `${lines.join('\r\n')}\r\n\r\n${body}`);
}

function parserRefusal(code: string | undefined): CommandError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new CommandError('CommandTooLarge', `the headers are larger than ${headerBytesMax} bytes`);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new CommandError('Busy', `the request took more than ${requestTimeoutMs / 1000} s to arrive`, {
      next: 'try again',
    });
  return new CommandError('InvalidCommand', 'the request is not well-formed HTTP');
}

const retryAfterSecondsOf: { readonly [Type in CommandErrorType]?: number } = { Busy: 5, TooManyRequests: 1 };

export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  logger: Logger,
): FastifyReply {
  if (error instanceof ClientGone) {
    request.raw.destroy();
    return reply.hijack();
  }
  const path = request.url.split('?', 1)[0] ?? '/';
  const refusal = asCommandError(error);
  if (refusal.type === 'InternalError') logger.error({ err: error, path }, 'command failed');
  const retryAfterSeconds = refusal.retryAfterSeconds ?? retryAfterSecondsOf[refusal.type];
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds));
  return reply.code(refusal.status).send(refusal.envelope(path));
}

function asCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  const followError = asFollowError(error);
  if (followError) return followError;
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  if (status >= 400 && status < 500)
    return new CommandError('InvalidCommand', 'the request cannot be read: send JSON');
  return new CommandError('InternalError', 'internal error; see the log of the control plane');
}
