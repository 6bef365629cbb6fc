/**
 * Pool of this gateway's connections to one node. Idle connections are reused, the most recent first, except for bodies in
 * pieces, which cannot be sent twice. A connection must be idle for one turn of the event loop before it is reused, so that
 * stray bytes after a response are not read as the next response. It is closed before the node may close it.
 */
import { connect, isIP, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { boundTurns } from '../../shared/runtime/handled-turns.ts';
import { isOutOfFiles } from '../../shared/runtime/open-files.ts';
import { perProcess } from '../../shared/runtime/per-process.ts';
import { NodeConnection, type NodeConnectionOwner } from './node-connection.ts';
import type { WireCall, WireRequest } from './wire-call.ts';

export interface NodeWiresOptions {
  /** Time in ms after which an idle connection is closed. */
  readonly keepAliveMs: number;
  readonly onOutOfFiles: () => void;
}

const restingMax = 512;
/** Number of sweeps over idle connections during the longest time that a connection may be idle. */
const looksInRest = 8;
const probeAfterMs = 60_000;

const readBytes = 64 * 1024;
/** Buffer into which all connections read. If it filled its whole `ArrayBuffer`, readers could take over the memory. */
const shared = Buffer.from(new ArrayBuffer(readBytes + 1), 0, readBytes);

/** Reads what has arrived on connections. All nodes get equal turns, so that none can block the others. */
const readWithinTurn = perProcess(() =>
  boundTurns<{ readonly connection: NodeConnection; readonly host: string }>(
    ({ connection }) => connection.readUnread(),
    ({ host }) => host,
    Number.POSITIVE_INFINITY,
  ),
);

export class NodeWires implements NodeConnectionOwner {
  readonly fields: string;
  readonly keepAliveMs: number;
  readonly #url: URL;
  readonly #options: NodeWiresOptions;
  readonly #all = new Set<NodeConnection>();
  #resting: NodeConnection[] = [];
  /** Connections that became idle in this turn of the event loop. */
  #ended: NodeConnection[] = [];
  #connected = 0;
  #session: Buffer | undefined;
  #looks = 0;
  #looking: NodeJS.Timeout | undefined;
  #onLast: (() => void) | undefined;
  #isClosing = false;

  constructor(origin: string, options: NodeWiresOptions) {
    this.#url = new URL(origin);
    this.#options = options;
    this.keepAliveMs = options.keepAliveMs;
    this.fields = `host: ${this.#url.host}\r\n`;
  }

  get connected(): number {
    return this.#connected;
  }

  get calls(): number {
    return this.#all.size - this.#resting.length - this.#ended.length;
  }

  dispatch(request: WireRequest, call: WireCall): void {
    const isFresh = request.isFresh || typeof request.body !== 'string';
    const connection = (isFresh ? undefined : this.#rested()) ?? this.#open();
    connection.take(request, call);
    if (this.#isClosing) connection.end();
  }

  /** Stops accepting calls. Resolves when the last call in progress has ended. */
  close(): Promise<void> {
    this.#isClosing = true;
    for (const connection of [...this.#resting, ...this.#ended]) connection.end();
    if (this.#all.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onLast = resolve;
    });
  }

  destroy(): Promise<void> {
    const closed = this.close();
    for (const connection of this.#all) connection.end();
    return closed;
  }

  onOpened(): void {
    this.#connected++;
  }

  onUnread(connection: NodeConnection): void {
    readWithinTurn()({ connection, host: this.#url.host });
  }

  onRest(connection: NodeConnection): void {
    if (this.#isClosing || this.#resting.length + this.#ended.length >= restingMax) {
      connection.end();
      return;
    }
    if (this.#ended.length === 0) setImmediate(this.#onTurn);
    this.#ended.push(connection);
  }

  onClosed(connection: NodeConnection, wasOpen: boolean): void {
    if (wasOpen) this.#connected--;
    this.#all.delete(connection);
    without(this.#resting, connection);
    without(this.#ended, connection);
    if (this.#all.size === 0) this.#onLast?.();
  }

  readonly #onTurn = (): void => {
    for (const connection of this.#ended) {
      connection.restedAt = this.#looks;
      this.#resting.push(connection);
    }
    this.#ended = [];
    this.#looking ??= setInterval(() => this.#look(), this.keepAliveMs / looksInRest).unref();
  };

  /** Closes the idle connections that the node might close before the next sweep. */
  #look(): void {
    this.#looks++;
    const everyMs = this.keepAliveMs / looksInRest;
    for (const connection of this.#resting) {
      const looks = this.#looks - connection.restedAt;
      if ((looks + 1) * everyMs > connection.restMs) connection.end();
    }
    if (this.#all.size > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #rested(): NodeConnection | undefined {
    for (;;) {
      const connection = this.#resting.pop();
      if (connection === undefined || connection.state === 'resting') return connection;
    }
  }

  #open(): NodeConnection {
    const onread: OnReadOpts = {
      buffer: shared,
      callback: (bytes, buffer) => {
        connection.onBytes((buffer as Buffer).subarray(0, bytes));
        return true;
      },
    };
    const socket = this.#socket(onread, () => connection.onOpened());
    const connection = new NodeConnection(socket, this);
    this.#all.add(connection);
    socket.on('error', (error) => {
      if (isOutOfFiles(error)) this.#options.onOutOfFiles();
    });
    return connection;
  }

  #socket(onread: OnReadOpts, onOpened: () => void): Socket {
    const { protocol, port } = this.#url;
    const host = this.#url.hostname.replace(/^\[|\]$/g, '');
    const settings = {
      ...{ host, onread, noDelay: true, keepAlive: true, keepAliveInitialDelay: probeAfterMs },
    };
    if (protocol !== 'https:') return connect({ ...settings, port: Number(port || 80) }, onOpened);
    const socket = connectTls(
      {
        ...{ ...settings, port: Number(port || 443), ALPNProtocols: ['http/1.1'] },
        ...(isIP(host) === 0 ? { servername: host } : {}),
        ...(this.#session === undefined ? {} : { session: this.#session }),
      },
      onOpened,
    );
    socket.on('session', (session) => {
      this.#session = session;
    });
    return socket;
  }
}

function without(connections: NodeConnection[], connection: NodeConnection): void {
  const at = connections.indexOf(connection);
  if (at !== -1) connections.splice(at, 1);
}
