/**
 * A TCP proxy between a client and one broker, which can drop answers, hold them back or refuse connections. It stands in
 * for a network that loses what the broker said, not what it was told.
 */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface TestProxy {
  readonly port: number;
  /** From now on: answers pass, are lost, or wait until `pass` is called. */
  answers(mode: 'pass' | 'drop' | 'hold'): void;
  /** Bytes that were sent to the broker so far. */
  sentBytes(): number;
  /** Cuts every connection that is open now. */
  cut(): void;
  close(): Promise<void>;
}

export async function startProxy(targetPort: number): Promise<TestProxy> {
  const sockets = new Set<Socket>();
  const held: (() => void)[] = [];
  let mode: 'pass' | 'drop' | 'hold' = 'pass';
  let sent = 0;
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
        other.destroy();
      });
    }
    client.on('data', (chunk: Buffer) => {
      sent += chunk.length;
      broker.write(chunk);
    });
    broker.on('data', (chunk: Buffer) => {
      if (mode === 'pass') client.write(chunk);
      if (mode === 'hold') held.push(() => client.write(chunk));
    });
  });
  server.listen(0, '127.0.0.1');
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
    cut,
    close: async () => {
      cut();
      await new Promise((closed) => server.close(closed));
    },
  };
}
