/**
 * A byte proxy in front of an engine's port that records every request with a body. It changes nothing. If the engine is
 * down, the proxy keeps running and resets the connections that it cannot forward.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface TapCall {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
  /** Whether the request's connection to the engine is still open. */
  isOpen(): boolean;
}

export interface Tap {
  readonly url: string;
  /** Returns the completion requests since the last call, without requests that count tokens. */
  take(): readonly TapCall[];
  close(): Promise<void>;
}

export async function openTap(engineUrl: string): Promise<Tap> {
  const port = Number(new URL(engineUrl).port);
  let requests: TapCall[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const engine = connect(port, '127.0.0.1');
    for (const socket of [client, engine]) sockets.add(socket.on('close', () => sockets.delete(socket)));
    join(client, engine);
    join(engine, client);
    const reader = new RequestReader((path, headers, body) =>
      requests.push({ path, headers, body, isOpen: () => !client.destroyed && !engine.destroyed }),
    );
    client.on('data', (chunk) => reader.add(chunk));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take: () => {
      const taken = requests;
      requests = [];
      return taken.filter(({ path }) => path === '/v1/chat/completions');
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function join(from: Socket, to: Socket): void {
  from.on('data', (chunk) => {
    if (!to.write(chunk)) from.pause();
  });
  to.on('drain', () => from.resume());
  from.on('end', () => to.end());
  from.on('error', () => to.resetAndDestroy());
  from.on('close', () => to.destroy());
}

type Take = (path: string, headers: TapCall['headers'], body: TapCall['body']) => void;

/** Reads requests from one connection. It supports only bodies with a length, because the gateway sends no others. */
class RequestReader {
  readonly #take: Take;
  #bytes = Buffer.alloc(0);

  constructor(take: Take) {
    this.#take = take;
  }

  add(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    for (;;) {
      const headEnd = this.#bytes.indexOf('\r\n\r\n');
      if (headEnd === -1) return;
      const [line = '', ...lines] = this.#bytes.toString('latin1', 0, headEnd).split('\r\n');
      const headers = Object.fromEntries(
        lines.map((header) => {
          const colon = header.indexOf(':');
          return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()];
        }),
      );
      const end = headEnd + 4 + Number(headers['content-length'] ?? 0);
      if (this.#bytes.length < end) return;
      const text = this.#bytes.toString('utf8', headEnd + 4, end);
      this.#bytes = this.#bytes.subarray(end);
      if (text !== '') this.#take(line.split(' ')[1] ?? '', headers, JSON.parse(text) as TapCall['body']);
    }
  }
}
