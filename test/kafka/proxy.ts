/**
 * A TCP proxy between clients and one broker, which can drop answers, hold them back or refuse connections. It stands in
 * for a network that loses what the broker said, not what it received, or for one that falls apart.
 */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface TestProxy {
  readonly port: number;
  /** From now on: answers pass, are lost, or wait until `pass` is called. */
  answers(mode: 'pass' | 'drop' | 'hold'): void;
  /** Bytes that were sent to the broker so far. */
  sentBytes(): number;
  /** Answers that wait now. */
  heldAnswers(): number;
  /** Cuts every connection that is open now. */
  cut(): void;
  /** Cuts the connections of clients that name themselves so (all of them by default), and each new one, until `heal`. */
  sever(concerns?: (clientId: string) => boolean): void;
  heal(): void;
  close(): Promise<void>;
}

/** `port`: where to listen; a free one where none is given. */
export async function startProxy(targetPort: number, port = 0): Promise<TestProxy> {
  const sockets = new Set<Socket>();
  const clients = new Map<Socket, string>();
  const held: (() => void)[] = [];
  let mode: 'pass' | 'drop' | 'hold' = 'pass';
  let sent = 0;
  let severed: (clientId: string) => boolean = () => false;
  const server = createServer((client) => {
    const broker = connect(targetPort, '127.0.0.1');
    for (const [socket, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        clients.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (chunk: Buffer) => {
      const clientId = clients.get(client) ?? clientIdOf(chunk);
      clients.set(client, clientId);
      if (severed(clientId)) {
        client.destroy();
        return;
      }
      sent += chunk.length;
      broker.write(chunk);
    });
    broker.on('data', (chunk: Buffer) => {
      if (mode === 'pass') client.write(chunk);
      if (mode === 'hold') held.push(() => client.write(chunk));
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as { port: number }).port,
    answers: (wanted) => {
      mode = wanted;
      if (wanted === 'pass') for (const release of held.splice(0)) release();
    },
    sentBytes: () => sent,
    heldAnswers: () => held.length,
    cut,
    sever: (concerns = () => true) => {
      severed = concerns;
      for (const [client, clientId] of clients) if (concerns(clientId)) client.destroy();
    },
    heal: () => {
      severed = () => false;
    },
    close: async () => {
      cut();
      await new Promise((closed) => server.close(closed));
    },
  };
}

/** Every request begins with its length, kind, version and number, and then the name that the client gives itself. */
function clientIdOf(firstChunk: Buffer): string {
  if (firstChunk.length < 14) return '';
  return firstChunk.toString('utf8', 14, 14 + Math.max(firstChunk.readInt16BE(12), 0));
}
