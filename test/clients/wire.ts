/**
 * A byte proxy in front of a port. It records each HTTP request that a client sends, and when. It changes nothing, and passes
 * on how connections end or are reset. It serves one client at a time.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Sighting {
  readonly method: string;
  readonly path: string;
  /** Request line and header lines, unchanged. */
  readonly head: string;
  /** Time at which the request arrived, on the monotonic clock in ms. */
  readonly atMs: number;
}

export interface Wire {
  /** Base URL of the API behind this proxy. */
  readonly url: string;
  readonly sightings: readonly Sighting[];
  /** Starts a new, empty list of requests. */
  restart(): void;
  /** Calls `act` once, when an answer with this status passes. */
  onAnswer(status: number, act: () => void): void;
  close(): Promise<void>;
}

/** Returns the method and path of each request, without the `?beta=true` that a library appends. */
export function paths({ sightings }: Wire): string[] {
  return sightings.map(({ method, path }) => `${method} ${path.replace('?beta=true', '')}`);
}

export function pauses({ sightings }: Wire): number[] {
  return sightings.slice(1).map(({ atMs }, index) => atMs - (sightings[index]?.atMs ?? 0));
}

/** Makes a call that must fail, and returns how the library describes the failure. */
export async function failing<Failure>(
  client: { failure(error: unknown): Failure },
  asked: Promise<unknown>,
): Promise<Failure> {
  const outcome = await asked.then(
    () => undefined,
    (error: unknown) => ({ failure: client.failure(error) }),
  );
  if (outcome === undefined) throw new Error('the call did not fail');
  return outcome.failure;
}

// The pattern does not require a line break before the request line, because a request follows the previous body directly.
const requestHead = /(GET|POST|HEAD|PUT|DELETE|OPTIONS|PATCH) (\S+) HTTP\/1\.[01]\r\n([\s\S]*?)\r\n\r\n/g;

/** Largest number of characters to wait for while a request's head arrives in pieces. */
const headMax = 16_384;

export async function openWire(port: number): Promise<Wire> {
  let sightings: Sighting[] = [];
  const waiting = new Map<string, () => void>();
  const sockets = new Set<Socket>();
  const note = (method = '', path = '', head = ''): void => {
    sightings.push({ method, path, head, atMs: performance.now() });
  };
  const server = createServer((client) => {
    const gateway = connect(port, '127.0.0.1');
    join(client, gateway);
    join(gateway, client);
    for (const socket of [client, gateway]) sockets.add(socket.on('close', () => sockets.delete(socket)));
    gateway.on('data', (chunk) => {
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(chunk.toString('latin1'))?.[1] ?? '';
      waiting.get(status)?.();
      waiting.delete(status);
    });
    let rest = '';
    client.on('data', (chunk) => {
      const text = rest + chunk.toString('latin1');
      let seen = 0;
      for (const match of text.matchAll(requestHead)) {
        note(match[1], match[2], match[3]);
        seen = match.index + match[0].length;
      }
      rest = text.slice(Math.max(seen, text.length - headMax));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    get sightings() {
      return sightings;
    },
    restart: () => {
      sightings = [];
    },
    onAnswer: (status, act) => {
      waiting.set(String(status), act);
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function join(from: Socket, to: Socket): void {
  from.on('data', (chunk) => to.write(chunk));
  from.on('end', () => to.end());
  from.on('error', () => to.resetAndDestroy());
  from.on('close', () => to.destroy());
}
