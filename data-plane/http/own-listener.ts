/** A listener whose HTTP this gateway reads and writes itself, with the bounds of every other one. */
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { boundTurns } from '../../shared/runtime/handled-turns.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { mintRequestId } from '../core/request-id.ts';
import { type ApiListenerOptions, clientTimeouts, type OpenedListener, rawAnswer } from './api-listener.ts';
import { type ConnectionBounds, type ConnectionOwner, OwnConnection } from './own-connection.ts';
import type { OwnExchange } from './own-exchange.ts';

/** How often the waits for clients are looked at, at most. */
const lookMs = 5000;

export function createOwnListener(options: ApiListenerOptions): OpenedListener {
  const { handler, fixed, certificate, connections, name, onRefusal, pace } = options;
  const timeouts = { ...clientTimeouts, ...options.timeouts };
  const everyMs = Math.min(lookMs, ...Object.values(timeouts));
  const open = new Set<OwnConnection>();
  let isStopping = false;
  const begin = boundTurns<OwnExchange>(
    (exchange) => {
      handler(exchange, fixed).catch(() => exchange.abort());
    },
    ({ peer }) => peer,
  );
  const owner: ConnectionOwner = {
    bounds: boundsOf(timeouts, everyMs),
    get isStopping() {
      return isStopping;
    },
    begin,
    onRefusal: (refused) => onRefusal({ ...refused, target: fixed }),
  };
  const onConnection = (socket: Socket): void => {
    const connection = new OwnConnection(socket, owner);
    open.add(connection);
    socket.on('close', () => open.delete(connection));
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
  certificate?.renewOn(server);
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
  return {
    server,
    stopAccepting,
    destroy: () => {
      stopAccepting();
      clearInterval(looking);
      for (const connection of open) connection.destroy();
    },
  };
}

function boundsOf(timeouts: typeof clientTimeouts, everyMs: number): ConnectionBounds {
  const looks = (ms: number): number => Math.ceil(ms / everyMs);
  return {
    headLooks: looks(timeouts.headersTimeoutMs),
    requestLooks: looks(timeouts.requestTimeoutMs),
    nextLooks: looks(timeouts.keepAliveTimeoutMs),
    restLooks: looks(waits.clientRest.ms),
    stallMs: timeouts.stallTimeoutMs,
    keepAliveSeconds: Math.floor(timeouts.keepAliveTimeoutMs / 1000),
  };
}
