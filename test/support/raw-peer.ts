/**
 * A client that does what HTTP libraries cannot: it sends arbitrary bytes over TCP or TLS, falls silent, closes only its own
 * side, or resets the connection. Used for attacks on listeners.
 */
import { connect, type Socket } from 'node:net';
import { type TLSSocket, connect as tlsConnect } from 'node:tls';

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

export function endpointOf(url: string): Endpoint {
  const { protocol, hostname, port } = new URL(url);
  return { host: hostname, port: Number(port), tls: protocol === 'https:' };
}

const waitMs = 15_000;

export class RawPeer {
  /** Resolves when either side has closed the connection for any reason. */
  readonly closed: Promise<void>;
  /** Resolves when the other side has ended or the connection is closed. */
  readonly ended: Promise<void>;
  readonly #tcp: Socket;
  readonly #stream: Socket | TLSSocket;
  #text = '';
  #isClosed = false;
  #isBroken = false;
  #wake: () => void = () => undefined;

  private constructor(tcp: Socket, stream: Socket | TLSSocket) {
    this.#tcp = tcp;
    this.#stream = stream;
    stream.on('data', (chunk: Buffer) => {
      this.#text += chunk.toString('latin1');
      this.#wake();
    });
    for (const socket of [tcp, stream])
      socket.on('error', () => {
        this.#isBroken = true;
      });
    this.ended = new Promise((resolve) => {
      for (const event of ['end', 'close']) stream.once(event, () => resolve());
    });
    this.closed = new Promise((resolve) =>
      stream.once('close', () => {
        this.#isClosed = true;
        resolve();
        this.#wake();
      }),
    );
  }

  /**
   * Opens a connection. With `handshake: false`, sends raw bytes to a TLS listener. With `halfOpen`, stays open after the
   * peer ends its side.
   */
  static open(
    { host, port, tls }: Endpoint,
    { handshake = true, halfOpen = false, from = undefined as string | undefined } = {},
  ): Promise<RawPeer> {
    return new Promise((resolve, reject) => {
      const tcp = connect({
        ...{ host, port, allowHalfOpen: halfOpen, noDelay: true },
        ...(from !== undefined && { localAddress: from }),
      });
      const stream =
        tls && handshake
          ? tlsConnect({ socket: tcp, rejectUnauthorized: false, allowHalfOpen: halfOpen } as object)
          : tcp;
      const peer = new RawPeer(tcp, stream);
      stream.once(stream === tcp ? 'connect' : 'secureConnect', () => resolve(peer));
      for (const socket of new Set([tcp, stream])) {
        socket.once('error', reject);
        socket.once('close', () => reject(new Error('closed before it was open')));
      }
    });
  }

  get text(): string {
    return this.#text;
  }
  get isClosed(): boolean {
    return this.#isClosed;
  }
  /** Whether the other side reset the connection or broke it in another way. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Resolves once the kernel has accepted the bytes or the connection is gone. */
  send(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isClosed || !this.#stream.writable) return resolve();
      const done = (): void => resolve();
      this.#stream.once('close', done);
      this.#stream.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes, () => {
        this.#stream.off('close', done);
        done();
      });
    });
  }

  /** Resolves with true once the received text matches, or with false if the connection closes first. Rejects after 15 s. */
  async received(pattern: RegExp): Promise<boolean> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#stream.destroy();
    }, waitMs);
    try {
      while (!pattern.test(this.#text)) {
        if (isLate) throw new Error(`nothing like ${pattern} in ${waitMs} ms: ${this.#text.slice(0, 300)}`);
        if (this.#isClosed) return false;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
      return true;
    } finally {
      clearTimeout(timer);
    }
  }

  pause(): void {
    this.#stream.pause();
  }

  /** Ends this side of the connection. The other side may keep sending. */
  end(): void {
    this.#stream.end();
  }

  /** Resets the TCP connection, even if it uses TLS. */
  reset(): void {
    this.#tcp.resetAndDestroy();
  }

  close(): void {
    this.#stream.destroy();
    this.#tcp.destroy();
  }
}

/** Sends the bytes over a new connection and returns everything received until the connection is closed. */
export async function exchange(endpoint: Endpoint, bytes: string | Buffer): Promise<string> {
  const peer = await RawPeer.open(endpoint);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    peer.close();
  }, waitMs);
  await peer.send(bytes);
  await peer.closed;
  clearTimeout(timer);
  if (late) throw new Error(`not closed in ${waitMs} ms: ${peer.text}`);
  return peer.text;
}

/** Returns the statuses of all answers in a text, including interim answers. */
export function statusesIn(text: string): number[] {
  return [...text.matchAll(/(?:^|\n|\})HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}
