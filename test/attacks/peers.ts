/** Hostile clients that hold connections open, send slowly, or repeat requests over many connections. */
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { endpointOf, RawPeer, statusesIn } from '../support/raw-peer.ts';

export interface Head {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Value of `Content-Length` if it differs from the body's length. With `chunked`, the body is sent in chunks. */
  readonly length?: number | 'chunked';
  readonly body?: string;
}

/** Returns the bytes of a JSON request to the listener at the URL. */
export function requestTo(url: string, { method = 'POST', path, headers = {}, length, body }: Head): string {
  const { host, origin } = new URL(url);
  const bytes = length ?? Buffer.byteLength(body ?? '');
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `Host: ${host}`,
    ...(method === 'GET' ? [] : [`Origin: ${origin}`, 'Content-Type: application/json']),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(bytes === 'chunked' ? ['Transfer-Encoding: chunked'] : []),
    ...(typeof bytes === 'number' && method !== 'GET' ? [`Content-Length: ${bytes}`] : []),
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Attacks come from a different address than the callers who must be answered meanwhile, as they would in practice. */
const hostileAddress = process.platform === 'linux' ? '127.0.0.9' : undefined;

async function openOrNone(url: string): Promise<RawPeer | undefined> {
  return RawPeer.open(endpointOf(url), { from: hostileAddress }).catch(() => undefined);
}

export interface Held {
  readonly count: number;
  readonly bytes: string | Buffer;
  /** Text that is sent every second after `bytes`. */
  readonly drip?: string;
  readonly whenHeld?: () => Promise<void>;
}

/**
 * Opens connections, sends the bytes over each, and holds the connections until the signal aborts. Returns the answer on each
 * connection.
 */
export async function hold(
  url: string,
  { count, bytes, drip, whenHeld }: Held,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const peers: RawPeer[] = [];
  for (let opened = 0; opened < count && !signal.aborted; opened++) {
    const peer = await openOrNone(url);
    if (peer === undefined) continue;
    peers.push(peer);
    void peer.send(bytes);
  }
  await whenHeld?.();
  while (!signal.aborted && drip !== undefined) {
    for (const peer of peers) void peer.send(drip);
    await Promise.race([pause(1000), aborted(signal)]);
  }
  await aborted(signal);
  for (const peer of peers) peer.close();
  return peers.map(({ text }) => text);
}

/** Sends the request over each connection, and again after each answer. Returns the number of answers by status. */
export async function flood(
  url: string,
  { connections, bytes }: { readonly connections: number; readonly bytes: string },
  signal: AbortSignal,
  counts = new Map<number, number>(),
): Promise<ReadonlyMap<number, number>> {
  const { host, port } = endpointOf(url);
  const localAddress = hostileAddress;
  const one = async (): Promise<void> => {
    while (!signal.aborted) {
      const socket = connect({ host, port, localAddress, noDelay: true }, () => socket.write(bytes));
      const leave = (): Socket => socket.destroy();
      signal.addEventListener('abort', leave, { once: true });
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        for (const status of statusesIn(chunk.toString('latin1'))) {
          counts.set(status, (counts.get(status) ?? 0) + 1);
          socket.write(bytes);
        }
      });
      // Waits for any end of the connection, because the kernel resets connections that a full listener did not accept in
      // time.
      await new Promise<void>((resolve) => socket.once('close', () => resolve()));
      signal.removeEventListener('abort', leave);
      await pause(50);
    }
  };
  await Promise.all(Array.from({ length: connections }, one));
  return counts;
}

/** Sends one-byte chunks endlessly, because they create the most objects per byte. */
export async function oneByteChunks(url: string, head: string, signal: AbortSignal): Promise<void> {
  const chunks = Buffer.from('1\r\n \r\n'.repeat(20_000));
  while (!signal.aborted) {
    const peer = await openOrNone(url);
    if (peer === undefined) {
      await pause(50);
      continue;
    }
    const leave = (): void => peer.close();
    signal.addEventListener('abort', leave, { once: true });
    await peer.send(head);
    while (!signal.aborted && !peer.isClosed) {
      await peer.send(chunks);
      // The socket reports that the peer has closed only in a later turn of the event loop.
      await nextTurn();
    }
    signal.removeEventListener('abort', leave);
    peer.close();
  }
}

/** Sends the bytes over several connections and never reads an answer. */
export async function holdUnread(
  url: string,
  { count, bytes }: { readonly count: number; readonly bytes: string },
  signal: AbortSignal,
): Promise<void> {
  const { host, port } = endpointOf(url);
  const sockets = Array.from({ length: count }, () => {
    const socket = connect({ host, port, localAddress: hostileAddress }, () => socket.write(bytes));
    return socket.on('error', () => undefined).pause();
  });
  await aborted(signal);
  for (const socket of sockets) socket.destroy();
}
