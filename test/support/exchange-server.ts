/** A gateway's HTTP listener for tests that handle its requests themselves. */
import type { Server, Socket } from 'node:net';
import { Registry } from 'prom-client';
import { type ApiListenerOptions, type Listener, startListener } from '../../data-plane/http/api-listener.ts';
import type { Exchange } from '../../data-plane/http/exchange.ts';
import { type ConnectionLimits, Connections } from '../../shared/runtime/connections.ts';

export interface ExchangeServer extends Listener {
  readonly port: number;
  /** Server-side sockets of the client connections that are currently open. */
  readonly sockets: ReadonlySet<Socket>;
}

class SeenConnections extends Connections {
  readonly sockets = new Set<Socket>();

  override guard(server: Server, ...more: [ApiListenerOptions['name']]): void {
    super.guard(server, ...more);
    server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
  }
}

/** Starts the listener. If the handler throws, the connection is destroyed. */
export async function serveExchanges(
  handler: (exchange: Exchange) => unknown,
  {
    limits,
    ...more
  }: Partial<Pick<ApiListenerOptions, 'timeouts' | 'onRefusal' | 'certificate' | 'pace'>> & {
    readonly limits?: Partial<ConnectionLimits>;
  } = {},
): Promise<ExchangeServer> {
  const connections = new SeenConnections({ registry: new Registry(), limits });
  const listener = await startListener({
    ...{ host: '127.0.0.1', port: 0, name: 'api', flag: '--port', connections },
    onRefusal: () => undefined,
    ...more,
    handler: async (exchange) => {
      await handler(exchange);
    },
  });
  return { ...listener, port: Number(new URL(listener.url).port), sockets: connections.sockets };
}
