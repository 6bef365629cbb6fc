/**
 * Limits concurrent connections per listener and per peer address. It also gives every socket a permanent error handler,
 * because Node removes its own after CONNECT and Upgrade, and an unhandled error event would end the process.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { Counter, Gauge, type Registry } from 'prom-client';
import { writeAndClose } from './end-with.ts';
import type { LineLogger } from './logger.ts';
import { type Pace, paceConnections } from './paced-connections.ts';
import { RateLimitedLine } from './rate-limited-line.ts';
import { waits } from './waits.ts';

export interface ConnectionLimits {
  /** Maximum number of open connections per listener. */
  readonly max: number;
  /** Maximum number of open connections per listener and peer address. A /64 IPv6 network counts as one address. */
  readonly perAddress: number;
  /** Time in ms for which a connection may stay idle between two requests. */
  readonly keepAliveMs: number;
}

/** Values of the `reason` label in the metric of refused connections. */
type RefusalReason = 'listener' | 'address' | 'rate' | 'calls';

/** Values of the `listener` label in metrics. */
export const listenerKinds = ['api', 'stack', 'admin', 'console', 'play', 'node', 'metrics'] as const;
export type ListenerName = (typeof listenerKinds)[number];

export interface ConnectionsOptions {
  readonly registry: Registry;
  readonly logger?: Pick<LineLogger, 'warn'> | undefined;
  readonly limits?: Partial<ConnectionLimits> | undefined;
}

export const connectionsMaxDefault = 10_000;
/** Limits on the metrics listener. It has few clients, so idle connections are closed to make room for new ones. */
const metricsLimits = connectionLimits({ max: 100 });
/** Time in ms after which TCP keep-alive probes start on an idle connection. They let the kernel detect dead peers. */
const probeAfterMs = 60_000;
/** Maximum number of refused connections that still get a response. Further ones are closed without one. */
const readingMax = 256;
/** Shortest time in ms between two log lines about refused connections, so that nobody can fill the disk with them. */
const logIntervalMs = 1000;

/** Adds defaults to the given limits. By default, one address may use only 90 % of a listener's connections. */
export function connectionLimits({
  max = connectionsMaxDefault,
  perAddress = Math.ceil(max * 0.9),
  keepAliveMs = waits.clientNext.ms,
}: Partial<ConnectionLimits> = {}): ConnectionLimits {
  return { max, perAddress, keepAliveMs };
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #refused: Counter<'listener' | 'reason'>;
  readonly #open: Gauge<'listener'>;
  readonly #refusals: RateLimitedLine;
  #refusedAddress: string | undefined;

  constructor({ registry, logger, limits }: ConnectionsOptions) {
    this.#limits = connectionLimits(limits);
    this.#refusals = new RateLimitedLine((refused) => {
      logger?.warn({ refused, address: this.#refusedAddress }, 'connections refused: too many');
      this.#refusedAddress = undefined;
    }, logIntervalMs);
    this.#refused = new Counter({
      name: 'headgate_connections_refused_total',
      help: 'connections closed by a limit, by listener and reason',
      labelNames: ['listener', 'reason'],
      registers: [registry],
    });
    this.#open = new Gauge({
      name: 'headgate_connections_open',
      help: 'open connections, by listener',
      labelNames: ['listener'],
      registers: [registry],
    });
  }

  get keepAliveMs(): number {
    return this.#limits.keepAliveMs;
  }

  /** Limits a server's connections and, if `pace` is given, the rate of new ones. Call it before the server listens. */
  guard(server: Server, listener: ListenerName, pace?: Pace): void {
    const { max, perAddress } = listener === 'metrics' ? metricsLimits : this.#limits;
    const idle = listener === 'metrics' ? new IdleSockets(server) : undefined;
    const open = this.#open.labels({ listener });
    open.inc(0);
    for (const reason of ['listener', 'address']) this.#refused.inc({ listener, reason }, 0);
    if (pace !== undefined) this.#pace(server, listener, pace);
    const peers = new Map<string, number>();
    // Let the metrics listener accept twice its limit, because a new connection is accepted before an idle one is closed.
    server.maxConnections = idle === undefined ? max : 2 * max;
    let sockets = 0;
    server.on('drop', (data) => this.#refuse(listener, 'listener', data?.remoteAddress));
    server.on('connection', (socket: Socket) => {
      destroyOnError(socket);
      socket.setKeepAlive(true, probeAfterMs);
      const peer = peerPrefix(socket.remoteAddress);
      const count = (peers.get(peer) ?? 0) + 1;
      peers.set(peer, count);
      open.inc();
      sockets++;
      socket.once('close', () => {
        open.dec();
        sockets--;
        const left = (peers.get(peer) ?? 1) - 1;
        if (left === 0) peers.delete(peer);
        else peers.set(peer, left);
      });
      idle?.add(socket);
      const reason = count > perAddress ? 'address' : sockets > max ? 'listener' : undefined;
      if (reason === undefined) return;
      this.#refuse(listener, reason, socket.remoteAddress);
      (idle?.oldest(reason === 'address' ? peer : undefined) ?? socket).destroy();
    });
    if (server instanceof TlsServer) server.on('secureConnection', destroyOnError);
  }

  /** Counts a connection that is closed because its client made too many calls on it. */
  refuseCall(listener: ListenerName): void {
    this.#refuse(listener, 'calls', undefined);
  }

  #pace(server: Server, listener: ListenerName, { isExempt, answer, monotonicMs }: Pace): void {
    for (const reason of ['rate', 'calls']) this.#refused.inc({ listener, reason }, 0);
    let reading = 0;
    const refuse = (socket: Socket): void => {
      this.#refuse(listener, 'rate', socket.remoteAddress);
      if (server instanceof TlsServer || reading >= readingMax) {
        socket.destroy();
        return;
      }
      reading++;
      socket.once('close', () => reading--);
      writeAndClose(socket, answer());
    };
    paceConnections(server, {
      peerPrefix: (address) => peerPrefix(address, 3),
      isExempt,
      monotonicMs,
      refuse,
    });
  }

  #refuse(listener: ListenerName, reason: RefusalReason, address: string | undefined): void {
    this.#refused.inc({ listener, reason });
    // Do not keep the addresses of playground visitors, which must never be logged.
    if (listener !== 'play') this.#refusedAddress = address;
    this.#refusals.add(`${listener} ${reason}`);
  }
}

/** Connections without a request in progress. The one that has been idle longest comes first. */
class IdleSockets {
  /** Idle sockets by peer address and port, which a TLS socket shares with its underlying TCP socket. */
  readonly #idle = new Map<string, Socket>();

  constructor(server: Server) {
    server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      const key = socketKey(socket);
      const idle = this.#idle.get(key);
      if (idle === undefined) return;
      this.#idle.delete(key);
      response.once('close', () => {
        if (!idle.destroyed) this.#idle.set(key, idle);
      });
    });
  }

  add(socket: Socket): void {
    const key = socketKey(socket);
    this.#idle.set(key, socket);
    socket.once('close', () => this.#idle.delete(key));
  }

  /** Returns the socket that has been idle longest, of one peer or of all, so that it can make room for a new one. */
  oldest(peer: string | undefined): Socket | undefined {
    for (const socket of this.#idle.values())
      if (!socket.destroyed && (peer === undefined || peerPrefix(socket.remoteAddress) === peer))
        return socket;
    return undefined;
  }
}

function socketKey({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function destroyOnError(socket: Socket): void {
  socket.on('error', () => socket.destroy());
}

/** Returns the key by which a peer's connections are counted: its IPv4 address, or the first groups of its IPv6 address. */
export function peerPrefix(address = '', ipv6Groups = 4): string {
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [left = '', right] = address.replace(/%.*$/, '').split('::', 2);
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const tail = right === undefined ? [] : groups(right);
  const head = groups(left);
  const zeros = Math.max(0, 8 - head.length - tail.length);
  return [...head, ...Array<string>(zeros).fill('0'), ...tail].slice(0, ipv6Groups).join(':');
}
