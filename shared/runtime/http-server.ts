/**
 * Creates the HTTP server of every listener, so that all have the same limits: timeouts of the TLS handshake, the headers
 * and the request, header size, number of connections and of requests sent ahead on one. Also reloads renewed certificates.
 */
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Connections, ListenerName } from './connections.ts';
import type { Pace } from './paced-connections.ts';
import { boundPipelining } from './pipelining.ts';
import type { Certificate } from './tls.ts';

/** Largest header block, bytes: prompts belong in bodies. */
export const headerBytesMax = 16 * 1024;

export interface HttpServerOptions {
  readonly name: ListenerName;
  readonly connections: Connections;
  readonly certificate?: Certificate | undefined;
  /** Timeout of the headers, and of the TLS handshake. */
  readonly headersTimeoutMs: number;
  /** Timeout of the whole request, body included. */
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs?: number;
  /** Node refuses requests without a Host header. Defaults to true. */
  readonly requireHostHeader?: boolean;
  /** Connections start at a bounded rate. */
  readonly pace?: Pace | undefined;
  /** The handler answers `Expect` itself. Otherwise Node sends 100, or 417 to an expectation that it does not know. */
  readonly handlesContinue?: boolean;
}

/** How often Node checks the timeouts, ms. */
const timeoutCheckMs = 5000;
const keepAliveTimeoutMsDefault = 5000;
/** Buffer of unread body bytes. Set here, because the default differs between Node versions. */
const highWaterMarkBytes = 16 * 1024;

export function createHttpServer(options: HttpServerOptions, handle: RequestListener): Server | TlsServer {
  const { name, connections, certificate, headersTimeoutMs, requestTimeoutMs } = options;
  const settings = {
    maxHeaderSize: headerBytesMax,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? keepAliveTimeoutMsDefault,
    highWaterMark: highWaterMarkBytes,
    requireHostHeader: options.requireHostHeader ?? true,
  };
  const bounded = boundPipelining(handle);
  const server = certificate
    ? createTlsServer({ ...settings, handshakeTimeout: headersTimeoutMs, ...certificate.tls }, bounded)
    : createServer(settings, bounded);
  if (options.handlesContinue)
    for (const event of ['checkContinue', 'checkExpectation']) server.on(event, bounded);
  // Beyond this number Node silently drops headers, a second Host too. 0 means no limit: headerBytesMax bounds them.
  server.maxHeadersCount = 0;
  certificate?.renewOn(server);
  connections.guard(server, name, options.pace);
  return server;
}
