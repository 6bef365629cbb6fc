/**
 * What the HTTP servers of a control plane have in common: limits, JSON bodies, and one error envelope for everything that
 * is refused, whether by the parser of Node, by Fastify or by a handler.
 */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Connections, ListenerName } from '../../shared/runtime/connections.ts';
import { endWith } from '../../shared/runtime/end-with.ts';
import { createHttpServer, headerBytesMax } from '../../shared/runtime/http-server.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { CommandError, type CommandErrorType } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';

const bodyBytesMax = 8 * 1024 * 1024;
/** A client must have sent its headers, and its whole request, within these. */
const headersTimeoutMs = 30_000;
const requestTimeoutMs = 120_000;
const keepAliveTimeoutMs = 75_000;

export interface HttpListener {
  readonly name: ListenerName;
  readonly connections: Connections;
  /** Over TLS where there is one. */
  readonly certificate?: Certificate | undefined;
  readonly logger: Logger;
}

export function createHttpApp({ logger, ...listener }: HttpListener): FastifyInstance {
  const timeouts = { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs };
  const app = Fastify({
    logger: false,
    serverFactory: (handle) => {
      const options = { ...listener, ...timeouts, requireHostHeader: false } as const;
      return createHttpServer(options, handle).on('checkExpectation', refuseExpectation) as Server;
    },
    clientErrorHandler: refuseUnreadable,
    frameworkErrors: (error, request, reply) => {
      // No hook runs for such a request, so nothing else would end an upgraded socket.
      reply.raw.once('finish', () => request.raw.socket.destroySoon());
      answerError(error, request as FastifyRequest, reply as FastifyReply, logger);
    },
    bodyLimit: bodyBytesMax,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 400 },
  }) as unknown as FastifyInstance;
  app.removeContentTypeParser('application/json');
  // Commands without a body may still name its type, as most clients do.
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    try {
      done(null, text === '' ? undefined : JSON.parse(String(text)));
    } catch {
      done(new CommandError('InvalidCommand', 'the body is not JSON'));
    }
  });
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, logger));
  return app;
}

/** HTTP/1.1 wants the header (RFC 9112, 3.2); Node's own refusal has no envelope. */
export function hostFault({ headers, raw }: FastifyRequest): CommandError | undefined {
  if (headers.host !== undefined || raw.httpVersion === '1.0') return undefined;
  return new CommandError('InvalidCommand', 'the request has no Host header');
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

const retryAfterSecondsOf: { readonly [Type in CommandErrorType]?: number } = { Busy: 5, TooManyRequests: 1 };

export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  logger: Logger,
): FastifyReply {
  const path = request.url.split('?', 1)[0] ?? '/';
  const refusal = asCommandError(error);
  if (refusal.type === 'InternalError') logger.error({ err: error, path }, 'command failed');
  const retryAfterSeconds = retryAfterSecondsOf[refusal.type];
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds));
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
