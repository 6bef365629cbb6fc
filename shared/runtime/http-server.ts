/**
 * Creates the HTTP server of every listener, so that all have the same limits: timeouts of the TLS handshake, the headers
 * and the request, and of a client that reads nothing, header size, number of connections and of requests sent ahead on one. Also
 * reloads renewed certificates.
 */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { dropBody } from './body-pieces.ts';
import type { Connections, ListenerName } from './connections.ts';
import { lingerAtEnd, writeAndClose } from './end-with.ts';
import { boundTurns } from './handled-turns.ts';
import { httpFault } from './http-fault.ts';
import { boundPipelining, mayRefuse } from './pipelining.ts';
import type { Certificate } from './tls.ts';
import { waits } from './waits.ts';

/** Largest header block, bytes: prompts belong in bodies. */
export const headerBytesMax = 16 * 1024;

type BadHttp = (request: IncomingMessage, response: ServerResponse, fault: string) => void;

export interface HttpServerOptions {
  readonly name: ListenerName;
  readonly connections: Connections;
  readonly certificate?: Certificate | undefined;
  /** Timeout of the headers, and of the TLS handshake. */
  readonly headersTimeoutMs: number;
  /** Timeout of the whole request, body included. */
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs?: number;
  /** Timeout of a client that does not read: no write completes. */
  readonly stallTimeoutMs?: number;
  /** Answers a request whose head could be read in two ways, with the fault as a sentence. */
  readonly badHttp: BadHttp;
  /** Requests that are handled in one turn of the event loop. */
  readonly handledMax?: number;
  /** The handler asks for a body that waits for `100 Continue`. Otherwise Node does, at once. */
  readonly handlesContinue?: boolean;
  /** Refuses what the parser could not read on a connection that owes no answer, and ends it. Otherwise in one line. */
  readonly unreadable?: (error: ParserError, socket: Socket) => void;
}

export interface ParserError extends Error {
  readonly code?: string;
  /** What was read last. */
  readonly rawPacket?: Buffer;
}

/** How often Node checks the timeouts, ms. */
const timeoutCheckMs = 5000;
const keepAliveTimeoutMsDefault = 5000;
/** Buffer of unread body bytes. Set here, because the default differs between Node versions. */
const highWaterMarkBytes = 16 * 1024;

export function createHttpServer(options: HttpServerOptions, handle: RequestListener): Server | TlsServer {
  const { name, connections, certificate, headersTimeoutMs, requestTimeoutMs } = options;
  const { stallTimeoutMs = waits.clientReads.ms } = options;
  const settings = {
    maxHeaderSize: headerBytesMax,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? keepAliveTimeoutMsDefault,
    highWaterMark: highWaterMarkBytes,
    // Its own refusal has no envelope; the check of the head makes it.
    requireHostHeader: false,
  };
  const handleChecked = checked(handle, options.badHttp);
  const begin = boundTurns<ServerResponse>(
    (response) => handleChecked(response.req, response),
    ({ req }) => req.socket.remoteAddress,
    options.handledMax,
  );
  const bounded = boundPipelining((_request, response) => begin(response));
  const server = certificate
    ? createTlsServer({ ...settings, handshakeTimeout: headersTimeoutMs, ...certificate.tls }, bounded)
    : createServer(settings, bounded);
  // An unknown expectation is a fault of the head; Node's own 417 has no envelope.
  server.on('checkExpectation', bounded);
  if (options.handlesContinue) server.on('checkContinue', bounded);
  const { unreadable = refuseInOneLine } = options;
  const onUnreadable = (error: ParserError, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || !socket.writable) socket.destroySoon();
    else if (mayRefuse(socket)) unreadable(error, socket);
  };
  server.on('clientError', onUnreadable);
  server.on('connect', (_request: IncomingMessage, socket: Socket) =>
    onUnreadable(new Error('no tunnels'), socket),
  );
  // Beyond this number Node silently drops headers, a second Host too. 0 means no limit: headerBytesMax bounds them.
  server.maxHeadersCount = 0;
  server.on(certificate ? 'secureConnection' : 'connection', (socket: Socket) => {
    lingerAtEnd(socket);
    endUnread(socket, stallTimeoutMs);
  });
  certificate?.renewServer(server);
  connections.guard(server, name);
  return server;
}

function refuseInOneLine(_error: ParserError, socket: Socket): void {
  writeAndClose(socket, 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
}

/**
 * Ends a connection whose client has completed no write for at least `ms`, and at most twice as long. Node's own timer would begin
 * again with each byte that the client sends. An idle connection has nothing to write.
 */
function endUnread(socket: Socket, ms: number): void {
  let before: number | undefined;
  const watch = setInterval(() => {
    const taken = socket.writableLength > 0 ? socket.bytesWritten - socket.writableLength : undefined;
    if (taken !== undefined && taken === before) socket.destroy();
    before = taken;
  }, ms).unref();
  socket.once('close', () => clearInterval(watch));
}

/** For listeners without an envelope. */
export function refuseAsText(_request: IncomingMessage, response: ServerResponse, fault: string): void {
  response.on('error', () => response.destroy());
  response.writeHead(400, { 'content-type': 'text/plain; charset=utf-8' }).end(`${fault}\n`);
}

function checked(handle: RequestListener, badHttp: BadHttp): RequestListener {
  return (request, response) => {
    const fault = httpFault(request);
    if (fault === undefined) return handle(request, response);
    badHttp(request, response, fault);
    dropBody(request);
  };
}
