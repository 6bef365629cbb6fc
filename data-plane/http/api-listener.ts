/**
 * Opens the listeners of the API and the playground. This room, `data-plane/http`, turns bytes into exchanges with the
 * project's own HTTP/1.1 reader and writer (docs/http.md). It refuses every message that two readers could understand
 * differently. It must not decide anything about a request, and it gets no new features.
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

/** Handles one request to its end and never rejects. `fixed` is set on a stack's own port, which ignores the Host header. */
export type Handler = (exchange: Exchange, fixed: Target | undefined) => Promise<void>;

export interface ApiListenerOptions extends ListenAddress {
  readonly handler: Handler;
  /** Called when the parser refuses bytes, before there is a request to handle. */
  readonly onRefusal: (refused: EarlyRefusal) => void;
  /** The only stack that this port serves, if it has one. */
  readonly fixed?: Target;
  readonly certificate?: Certificate | undefined;
  readonly connections: Connections;
  /** Bounds the rate of new connections, except from exempt addresses. */
  readonly pace?: {
    readonly isExempt: (address: string | undefined) => boolean;
    readonly refusal: () => Refusal;
  };
  /** Replacements for the default timeouts in `waits`. */
  readonly timeouts?: Partial<ClientTimeouts>;
  readonly name: ListenerName;
  /** Flag named in the error message if the port is in use. */
  readonly flag: string;
}

export interface Listener {
  readonly url: string;
  /** Stops accepting. Idle connections are closed at once, the others after their request. */
  stopAccepting(): void;
  /** Refuses every request whose answer has not begun, and ends the other answers early. */
  cutOff(refusal: Refusal): void;
  /** Stops accepting, and closes the remaining connections. */
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

/** Longest time between two checks of client timeouts, in ms. */
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
    // A connection delayed by pacing or its TLS handshake may arrive after the listener was destroyed.
    if (isDestroyed) return void socket.destroy();
    const connection = new ClientConnection(socket, owner);
    open.add(connection);
    socket.on('close', () => open.delete(connection));
    // With pacing, Node accepts connections paused, and pauses TLS connections once more.
    socket.resume();
  };
  // Not half-open over TLS: a reset before the first read ends without an error there, so the connection would linger.
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

/** Interval between checks of the connections, in ms: the shortest timeout, but at most five seconds. */
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
