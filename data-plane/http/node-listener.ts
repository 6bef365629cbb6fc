/**
 * The listeners of a gateway: from a socket to `handle`, and every refusal that the parser makes itself, in the one
 * envelope. No policy: which host, which key, which node is decided in request/.
 */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import type { Connections, ListenerName } from '../../shared/runtime/connections.ts';
import { endWith } from '../../shared/runtime/end-with.ts';
import { createHttpServer, headerBytesMax, type ParserError } from '../../shared/runtime/http-server.ts';
import { type ListenAddress, listen, urlOf } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { mintRequestId } from '../core/request-id.ts';
import { pathOfRefused } from './answers.ts';
import type { Exchange } from './exchange.ts';
import { NodeExchange } from './node-exchange.ts';

/** A refusal that was answered before there was a request to handle: nothing is known of it but what is here. */
export interface EarlyRefusal {
  readonly requestId: string;
  readonly refusal: Refusal;
  readonly target?: Target | undefined;
}

/** Handles one request to its end; never rejects. `fixed` is set on a stack's own port, where the Host header is not read. */
export type Handler = (exchange: Exchange, fixed: Target | undefined) => Promise<void>;

export interface ApiListenerOptions extends ListenAddress {
  readonly handler: Handler;
  /** Called for what the parser refuses, before there is a request to handle. */
  readonly onRefusal: (refused: EarlyRefusal) => void;
  /** The one stack that this port serves. */
  readonly fixed?: Target;
  readonly certificate?: Certificate | undefined;
  readonly connections: Connections;
  /** Connections start at a bounded rate, but for those from such addresses. */
  readonly pace?: {
    readonly isExempt: (address: string | undefined) => boolean;
    readonly refusal: () => Refusal;
  };
  /** In place of those of `waits`. */
  readonly timeouts?: Partial<typeof clientTimeouts>;
  readonly name: ListenerName;
  /** Names the flag in the error of a taken port. */
  readonly flag: string;
}

export interface Listener {
  readonly url: string;
  /** Stops accepting; idle connections are closed, those with a request close after it. */
  stopAccepting(): void;
  /** Stops accepting, and ends what is left. */
  destroy(): void;
}

const clientTimeouts = {
  headersTimeoutMs: waits.clientHead.ms,
  requestTimeoutMs: waits.clientRequest.ms,
  keepAliveTimeoutMs: waits.clientNext.ms,
};

export async function startListener(options: ApiListenerOptions): Promise<Listener> {
  const server = createListener(options);
  const sockets = trackSockets(server);
  const address = await listen(server, options, { bind: '--bind', port: options.flag });
  return {
    url: urlOf(address, options.certificate !== undefined),
    stopAccepting: () => {
      server.close();
      server.closeIdleConnections();
    },
    destroy: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function createListener(options: ApiListenerOptions): Server | TlsServer {
  const { handler, fixed, certificate, connections, name, onRefusal, pace } = options;
  const unreadable = (error: ParserError, socket: Socket): void =>
    onRefusal({ ...refuseGarbage(error, socket), target: fixed });
  const listener = (_request: IncomingMessage, response: ServerResponse): void => {
    handler(new NodeExchange(response), fixed).catch(() => response.destroy());
  };
  const timeouts = { ...clientTimeouts, ...options.timeouts };
  const server = createHttpServer(
    // The handler refuses a bad head in the one envelope, and asks for a body once it has checked the key.
    {
      ...{ name, connections, certificate, ...timeouts, badHttp: 'handler', handlesContinue: true },
      unreadable,
      pace: pace && {
        isExempt: pace.isExempt,
        answer: () => rawAnswer({ requestId: mintRequestId(), refusal: pace.refusal() }),
      },
    },
    listener,
  );
  // Without a listener for it an `Upgrade` header is ignored, as HTTP allows (RFC 9110, 7.8).
  return server;
}

function trackSockets(server: Server): Set<Socket> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  return sockets;
}

/**
 * Answers what the parser could not read, by the one envelope, and closes; with its path where the first line came with what is
 * wrong. Returns what was answered.
 */
function refuseGarbage(error: ParserError, socket: Socket): EarlyRefusal {
  const refusal =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new Refusal('large headers', `The request's headers are larger than ${headerBytesMax} bytes.`)
      : new Refusal('bad http', 'The request is not well-formed HTTP.');
  const refused = { requestId: mintRequestId(), refusal };
  endWith(socket, rawAnswer(refused, pathOfRefused(error.rawPacket)));
  return refused;
}

function rawAnswer({ requestId, refusal }: EarlyRefusal, path = '/'): string {
  const body = JSON.stringify(refusal.envelope(path));
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...(refusal.retryAfterSeconds === undefined
      ? ['x-should-retry: false']
      : [`retry-after: ${refusal.retryAfterSeconds}`]),
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
