/**
 * Opens the listeners of the API and the playground. The room `data-plane/http` turns bytes into exchanges, by HTTP/1.1 that this
 * project reads and writes itself (docs/http.md). It promises to refuse every message that two readers could understand
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
  readonly timeouts?: Partial<ClientTimeouts>;
  readonly name: ListenerName;
  /** Names the flag in the error of a taken port. */
  readonly flag: string;
}

export interface Listener {
  readonly url: string;
  /** Stops accepting; idle connections are closed, those with a request close after it. */
  stopAccepting(): void;
  /** Refuses each request whose answer has not begun, and ends the answers that have. */
  cutOff(refusal: Refusal): void;
  /** Stops accepting, and ends what is left. */
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

/** How often the waits for clients are looked at, at most. */
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
    // One that waited for its pace, or for its handshake, comes behind the end.
    if (isDestroyed) return void socket.destroy();
    const connection = new ClientConnection(socket, owner);
    open.add(connection);
    socket.on('close', () => open.delete(connection));
    // Where connections are paced Node accepts them paused, and pauses once more what comes over TLS.
    socket.resume();
  };
  // Over TLS a reset before the first byte is read is an end without an error, which would leave a half-open connection.
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

/** How often connections are checked, in ms: as often as the shortest time-out, and at least every five seconds. */
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
