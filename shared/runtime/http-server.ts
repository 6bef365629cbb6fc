/**
 * Creates the HTTP servers of all listeners with equal limits: timeouts (for TLS handshakes, headers, requests and clients
 * that do not read), header size, number of connections and pipelined requests. It also reloads renewed certificates.
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

/** Maximum size of a request's headers in bytes. It can be small because prompts belong in bodies. */
export const headerBytesMax = 16 * 1024;

type BadHttp = (request: IncomingMessage, response: ServerResponse, fault: string) => void;

export interface HttpServerOptions {
  readonly name: ListenerName;
  readonly connections: Connections;
  readonly certificate?: Certificate | undefined;
  /** Time limit in ms for receiving the headers, and for the TLS handshake. */
  readonly headersTimeoutMs: number;
  /** Time limit in ms for receiving a whole request, including its body. */
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs?: number;
  /** Longest time in ms for which a client may read nothing of its response. */
  readonly stallTimeoutMs?: number;
  /** Responds to a request whose head is ambiguous. `fault` describes the problem in a sentence. */
  readonly badHttp: BadHttp;
  /** Maximum number of requests handled in one turn of the event loop. */
  readonly handledMax?: number;
  /** Whether the handler sends `100 Continue` itself. Otherwise Node sends it immediately. */
  readonly handlesContinue?: boolean;
  /** Responds to unparsable input on a connection without a pending response, and closes it. The default is a bare 400. */
  readonly unreadable?: (error: ParserError, socket: Socket) => void;
}

export interface ParserError extends Error {
  readonly code?: string;
  /** Bytes that Node's HTTP parser read last. */
  readonly rawPacket?: Buffer;
}

/** Interval in ms at which Node checks the timeouts. */
const timeoutCheckMs = 5000;
const keepAliveTimeoutMsDefault = 5000;
/** Size in bytes of the buffer for unread body data. It is set explicitly because the default depends on Node's version. */
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
    // Leave a missing Host header to the head check, because Node's own refusal has no error envelope.
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
  // Leave an unknown expectation to the head check, because Node's own 417 has no error envelope.
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
  // By default, Node silently drops headers beyond a limit, even a second Host. 0 disables that; `headerBytesMax` remains.
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

/** Closes a connection if its client reads nothing for one to two times `ms`, whatever the client sends meanwhile. */
function endUnread(socket: Socket, ms: number): void {
  let before: number | undefined;
  const watch = setInterval(() => {
    const taken = socket.writableLength > 0 ? socket.bytesWritten - socket.writableLength : undefined;
    if (taken !== undefined && taken === before) socket.destroy();
    before = taken;
  }, ms).unref();
  socket.once('close', () => clearInterval(watch));
}

/** Refuses a request in plain text. For listeners without an error envelope. */
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
