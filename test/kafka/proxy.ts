/**
 * A TCP proxy between clients and one broker. It can drop or delay responses or refuse connections, like a network that is
 * partitioned or loses the broker's responses but not its requests.
 */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface TestProxy {
  readonly port: number;
  /** Sets what happens to responses: they pass, are dropped, or wait until this is set to `pass` again. */
  answers(mode: 'pass' | 'drop' | 'hold'): void;
  sentBytes(): number;
  heldAnswers(): number;
  cut(): void;
  /** Closes current and new connections of matching clients until `heal` is called. Matches all clients by default. */
  sever(concerns?: (clientId: string) => boolean): void;
  heal(): void;
  close(): Promise<void>;
}

/** Listens on `port`, or on a free port by default. */
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

/** Reads the client id, which follows each request's length, kind, version and number. */
function clientIdOf(firstChunk: Buffer): string {
  if (firstChunk.length < 14) return '';
  return firstChunk.toString('utf8', 14, 14 + Math.max(firstChunk.readInt16BE(12), 0));
}
