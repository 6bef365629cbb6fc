/**
 * Makes the HTTP server of every listener, so that the bounds and guards that each needs stand in one place: time to shake
 * hands, to send the headers and the request, size of the header block, number of connections and of requests sent ahead on
 * one, renewal of the certificate.
 */
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Connections, ListenerName } from './connections.ts';
import { boundPipelining } from './pipelining.ts';
import type { Certificate } from './tls.ts';

/** Largest header block, bytes: prompts belong in bodies. */
export const headerBytesMax = 16 * 1024;

export interface HttpServerOptions {
  readonly name: ListenerName;
  readonly connections: Connections;
  readonly certificate?: Certificate | undefined;
  /** A client must have sent its headers within this; it has as long to finish a TLS handshake. */
  readonly headersTimeoutMs: number;
  /** A client must have sent its whole request within this. */
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs?: number;
  /** Is a request without a Host header refused by Node? True unless given. */
  readonly requireHostHeader?: boolean;
  /** Is a request with an Expect header the handler's matter? Otherwise Node answers it. */
  readonly handlesExpect?: boolean;
}

/** How often the time-outs of a request are looked at, ms. */
const timeoutCheckMs = 5000;
const keepAliveTimeoutMsDefault = 5000;
/** Of a body that comes faster than it is read, bytes; Node's own default differs between its versions. */
const waitingBytesMax = 16 * 1024;

export function createHttpServer(options: HttpServerOptions, handle: RequestListener): Server | TlsServer {
  const { name, connections, certificate, headersTimeoutMs, requestTimeoutMs } = options;
  const settings = {
    maxHeaderSize: headerBytesMax,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? keepAliveTimeoutMsDefault,
    highWaterMark: waitingBytesMax,
    requireHostHeader: options.requireHostHeader ?? true,
  };
  const bounded = boundPipelining(handle);
  const server = certificate
    ? createTlsServer({ ...settings, handshakeTimeout: headersTimeoutMs, ...certificate.tls }, bounded)
    : createServer(settings, bounded);
  if (options.handlesExpect)
    for (const event of ['checkContinue', 'checkExpectation']) server.on(event, bounded);
  // Node passes over what is beyond its number of headers, a second Host too; the bytes of the block bound them.
  server.maxHeadersCount = 0;
  certificate?.renewOn(server);
  connections.guard(server, name);
  return server;
}
