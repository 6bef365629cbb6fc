/**
 * Opens the listeners of the API and the playground. The folder `data-plane/http` contains the project's own HTTP/1.1 reader
 * and writer (docs/http.md). The reader rejects every message that two HTTP implementations could understand differently. The
 * folder makes no other decisions about requests, and gets no new features.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import type { Connections, ListenerName } from '../../shared/runtime/connections.ts';
import { boundTurns } from '../../shared/runtime/handled-turns.ts';
import { type ListenAddress, listen, listenerUrl } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { mintRequestId } from '../surfaces/common/request-id.ts';
import { ClientConnection, type ConnectionBounds, type ConnectionOwner } from './client-connection.ts';
import { type EarlyRefusal, rawAnswer } from './early-refusal.ts';
import type { Exchange } from './exchange.ts';

/** Handles one request completely; never rejects. `fixed` is set on a stack's own port, which ignores the Host header. */
export type Handler = (exchange: Exchange, fixed: Target | undefined) => Promise<void>;

export interface ApiListenerOptions extends ListenAddress {
  readonly handler: Handler;
  /** Called when a request is refused before it can be handled, because its bytes are invalid. */
  readonly onRefusal: (refused: EarlyRefusal) => void;
  /** Stack that this port serves, or undefined if the Host header selects the stack. */
  readonly fixed?: Target;
  readonly certificate?: Certificate | undefined;
  readonly connections: Connections;
  /** Limit on the rate of new connections, except those from exempt addresses. */
  readonly pace?: {
    readonly isExempt: (address: string | undefined) => boolean;
    readonly refusal: () => Refusal;
  };
  /** Time-outs to use in place of the defaults. */
  readonly timeouts?: Partial<ClientTimeouts>;
  readonly name: ListenerName;
  /** Command-line option that sets the port. It is named in the error message if the port is in use. */
  readonly flag: string;
}

export interface Listener {
  readonly url: string;
  /** Stops accepting connections. Closes idle connections at once, and the others after their current request. */
  stopAccepting(): void;
  /** Refuses all requests whose responses have not begun, and cuts off all other responses. */
  cutOff(refusal: Refusal): void;
  destroy(): void;
}

const clientTimeouts = {
  headersTimeoutMs: waits.clientHead.ms,
  requestTimeoutMs: waits.clientRequest.ms,
  keepAliveTimeoutMs: waits.clientNext.ms,
  stallTimeoutMs: waits.clientReads.ms,
  restTimeoutMs: waits.clientRest.ms,
  lastBytesTimeoutMs: waits.clientLastBytes.ms,
};

type ClientTimeouts = Readonly<Record<keyof typeof clientTimeouts, number>>;

/** Maximum interval in ms at which clients' time-outs are checked. */
const lookMs = 5000;

export async function startListener(options: ApiListenerOptions): Promise<Listener> {
  const { handler, fixed, certificate, connections, name, onRefusal, pace } = options;
  const keepAliveTimeoutMs = connections.keepAliveMs;
  const timeouts = { ...clientTimeouts, keepAliveTimeoutMs, ...options.timeouts };
  const everyMs = lookInterval(timeouts);
  const open = new Set<ClientConnection>();
  let isStopping = false;
  let isDestroyed = false;
  const begin = boundTurns<Exchange>(
    (exchange) => {
      handler(exchange, fixed).catch(() => exchange.abort());
    },
    ({ peer }) => peer,
  );
  const owner: ConnectionOwner = {
    bounds: toBounds(timeouts, everyMs),
    get isStopping() {
      return isStopping;
    },
    begin,
    onRefusal: (refused) => onRefusal({ ...refused, target: fixed }),
  };
  const onConnection = (socket: Socket): void => {
    // A rate limit or a TLS handshake may have delayed this connection until after the listener was destroyed.
    if (isDestroyed) return void socket.destroy();
    const connection = new ClientConnection(socket, owner);
    open.add(connection);
    socket.on('close', () => open.delete(connection));
    // Node pauses rate-limited connections when it accepts them, and pauses TLS connections once more, so resume them.
    socket.resume();
  };
  // Allow half-open connections only without TLS: over TLS, a reset before the first read would go unnoticed.
  const server: Server = certificate
    ? createTlsServer({
        noDelay: true,
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: timeouts.headersTimeoutMs,
        ...certificate.tls,
      })
    : createServer({ allowHalfOpen: true, noDelay: true }, onConnection);
  if (certificate) server.on('secureConnection', onConnection);
  certificate?.renewServer(server);
  connections.guard(
    server,
    name,
    pace && {
      isExempt: pace.isExempt,
      answer: () => rawAnswer({ requestId: mintRequestId(), refusal: pace.refusal() }),
    },
  );
  const looking = setInterval(() => {
    for (const connection of open) connection.look();
  }, everyMs).unref();
  const stopAccepting = (): void => {
    isStopping = true;
    server.close(() => clearInterval(looking));
    for (const connection of open) if (connection.isIdle) connection.destroy();
  };
  const address = await listen(server, options, { bind: '--bind', port: options.flag });
  return {
    url: listenerUrl(address, certificate !== undefined),
    stopAccepting,
    cutOff: (refusal) => {
      for (const connection of open) connection.cutOff(refusal);
    },
    destroy: () => {
      isDestroyed = true;
      stopAccepting();
      clearInterval(looking);
      for (const connection of open) connection.destroy();
    },
  };
}

/** Interval in ms at which clients' time-outs are checked: the shortest time-out, but at most five seconds. */
function lookInterval(timeouts: ClientTimeouts): number {
  const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, restTimeoutMs } = timeouts;
  return Math.min(lookMs, headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs, restTimeoutMs);
}

function toBounds(timeouts: ClientTimeouts, everyMs: number): ConnectionBounds {
  const looks = (ms: number): number => Math.ceil(ms / everyMs);
  return {
    headLooks: looks(timeouts.headersTimeoutMs),
    requestLooks: looks(timeouts.requestTimeoutMs),
    nextLooks: looks(timeouts.keepAliveTimeoutMs),
    restLooks: looks(timeouts.restTimeoutMs),
    stallMs: timeouts.stallTimeoutMs,
    lastBytesMs: timeouts.lastBytesTimeoutMs,
    keepAliveSeconds: Math.floor(timeouts.keepAliveTimeoutMs / 1000),
  };
}
