/**
 * An in-memory network. Once it is installed, listeners and connections of `node:net` and `node:http` use it, so control
 * planes, gateways, agents, inference servers and clients talk to each other through their own HTTP code. The bytes of one
 * direction arrive in order, each piece after a random time. When a process ends, its connections are reset.
 */
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import { Duplex } from 'node:stream';
import { perProcess } from '../../shared/runtime/per-process.ts';
import type { Scheduler, SimulatedProcess } from './scheduler.ts';

/** Shortest and longest time that a piece of data takes, in ms. */
const delayMs = [0.05, 1] as const;

/** An HTTP agent. Each simulated process has its own, because an agent keeps its connections. */
interface RequestAgent extends http.Agent {
  addRequest(...args: unknown[]): void;
}

export class Network {
  readonly #scheduler: Scheduler;
  readonly #listeners = new Map<number, { server: net.Server; owner: SimulatedProcess }>();
  readonly #sockets = new Set<Socket>();
  #port = 40_000;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  /** Replaces the network functions of Node.js in this process. */
  install(): void {
    const network = this;
    net.Server.prototype.listen = function (this: net.Server, ...args: unknown[]) {
      return network.#listen(this, args);
    };
    const connect = (...args: unknown[]): Socket => this.#connect(args);
    Object.assign(net, { connect, createConnection: connect });
    Object.assign(http.Agent.prototype, { createConnection: connect });
    const agent = perProcess(() => new http.Agent({ keepAlive: true }) as RequestAgent);
    const addRequest = (...args: unknown[]): void => agent().addRequest(...args);
    http.globalAgent = Object.assign(new http.Agent(), { addRequest });
    syncBuiltinESMExports();
  }

  /** Closes the listeners of an ended process, and resets its connections. */
  ended(owner: SimulatedProcess): void {
    for (const [port, listener] of this.#listeners)
      if (listener.owner === owner) this.#listeners.delete(port);
    for (const socket of this.#sockets)
      if (socket.owner === owner) {
        this.#sockets.delete(socket);
        socket.peer?.receiveReset();
      }
  }

  #listen(server: net.Server, args: unknown[]): net.Server {
    const [options, second] = args as [{ port?: number } | number, unknown];
    const asked = typeof options === 'number' ? options : (options.port ?? 0);
    const port = asked === 0 ? this.#port++ : asked;
    const onListening = [second, args[2]].find((each) => typeof each === 'function');
    if (onListening) server.once('listening', onListening as () => void);
    const owner = this.#scheduler.current;
    this.#listeners.set(port, { server, owner });
    const close = (done?: (error?: Error) => void): net.Server => {
      if (this.#listeners.get(port)?.server === server) this.#listeners.delete(port);
      const left = [...this.#sockets].filter((socket) => socket.server === server);
      let open = left.length;
      const ended = (): void => {
        server.emit('close');
        done?.();
      };
      for (const socket of left) socket.once('close', () => --open === 0 && ended());
      if (open === 0) this.#scheduler.after(0, ended);
      if (server instanceof http.Server) server.closeIdleConnections();
      return server;
    };
    Object.assign(server, {
      close,
      address: () => ({ address: '127.0.0.1', port, family: 'IPv4' }),
      // Turns off Node's own check of idle connections, because its clock is not simulated.
      connectionsCheckingInterval: 2 ** 31 - 1,
    });
    Object.defineProperty(server, 'listening', {
      get: () => this.#listeners.get(port)?.server === server,
      configurable: true,
    });
    this.#scheduler.after(0, () => server.emit('listening'));
    return server;
  }

  #connect(args: unknown[]): Socket {
    const [options, second] = args as [{ port: number; onread?: net.OnReadOpts }, unknown];
    const port = Number(typeof options === 'object' ? options.port : options);
    const onConnect = [second, args[2]].find((each) => typeof each === 'function') as
      | (() => void)
      | undefined;
    const scheduler = this.#scheduler;
    const socket = new Socket(this, scheduler, scheduler.current);
    if (typeof options === 'object' && options.onread) readInto(socket, options.onread);
    // Leaves out the callback of an HTTP agent, which is meant for connections that are made later. This connection exists at
    // once.
    if (onConnect && onConnect.length === 0) socket.once('connect', onConnect);
    this.#sockets.add(socket);
    scheduler.after(scheduler.between(...delayMs), () => this.#open(socket, port));
    return socket;
  }

  #open(socket: Socket, port: number): void {
    if (socket.destroyed) return;
    const listener = this.#listeners.get(port);
    if (listener === undefined || listener.owner.isOver) {
      const error = Object.assign(new Error(`connect ECONNREFUSED 127.0.0.1:${port}`), {
        ...{ code: 'ECONNREFUSED', syscall: 'connect', address: '127.0.0.1', port },
      });
      socket.destroy(error);
      return;
    }
    const { server, owner } = listener;
    this.#scheduler.after(
      0,
      () => {
        if (socket.destroyed) return;
        const accepted = new Socket(this, this.#scheduler, owner, server);
        this.#sockets.add(accepted);
        accepted.peer = socket;
        socket.peer = accepted;
        accepted.opened();
        server.emit('connection', accepted);
        this.#scheduler.after(0, () => socket.opened(), socket.owner);
      },
      owner,
    );
  }

  closed(socket: Socket): void {
    this.#sockets.delete(socket);
  }
}

/** Delivers the data into the caller's buffer, as `net.connect` does with its option `onread`. */
function readInto(socket: Socket, { buffer, callback }: net.OnReadOpts): void {
  const into = (typeof buffer === 'function' ? buffer() : buffer) as Buffer;
  socket.on('data', (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; at += into.length) {
      const piece = bytes.subarray(at, at + into.length);
      into.set(piece);
      if (!callback(piece.length, into)) socket.pause();
    }
  });
}

/** One end of a connection. Node's HTTP code accepts it as a socket, because it is a duplex stream with the same methods. */
class Socket extends Duplex {
  peer: Socket | undefined;
  connecting = true;
  readonly remoteAddress = '127.0.0.1';
  readonly remoteFamily = 'IPv4';
  readonly remotePort: number;
  bytesWritten = 0;
  readonly owner: SimulatedProcess;
  readonly server: net.Server | undefined;
  readonly #network: Network;
  readonly #scheduler: Scheduler;
  /** Writes that wait until the connection is open. */
  #early: (() => void)[] = [];
  #lastMs = 0;
  #idle: NodeJS.Timeout | undefined;
  #idleMs = 0;
  static #ports = 0;

  constructor(network: Network, scheduler: Scheduler, owner: SimulatedProcess, server?: net.Server) {
    super({ allowHalfOpen: true, emitClose: true });
    this.#network = network;
    this.#scheduler = scheduler;
    this.owner = owner;
    this.server = server;
    this.remotePort = 1024 + (++Socket.#ports % 60_000);
  }

  opened(): void {
    if (this.destroyed) return;
    this.connecting = false;
    for (const write of this.#early.splice(0)) write();
    this.emit('connect');
    this.emit('ready');
  }

  receiveReset(): void {
    this.#scheduler.after(
      this.#scheduler.between(...delayMs),
      () =>
        this.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })),
      this.owner,
    );
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.#whenOpen(() => {
      this.#touch();
      this.#send((peer) => (peer.destroyed ? this.receiveReset() : peer.bytesReceived(bytes)));
      done();
    });
  }

  override _final(done: () => void): void {
    this.#whenOpen(() => {
      this.#send((peer) => peer.push(null));
      done();
    });
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#idle);
    this.#network.closed(this);
    this.#send((peer) => {
      if (!peer.destroyed) peer.push(null);
    });
    done(error);
  }

  bytesReceived(bytes: Buffer): void {
    this.#touch();
    this.push(bytes);
  }

  /** Delivers something to the other end of the connection, in the order of the calls, unless the process there has ended. */
  #send(deliver: (peer: Socket) => void): void {
    const { peer } = this;
    if (peer === undefined) return;
    const ms = this.#scheduler.between(...delayMs);
    this.#lastMs = Math.max(this.#lastMs, this.#scheduler.nowMs + ms);
    this.#scheduler.at(this.#lastMs, () => deliver(peer), peer.owner);
  }

  #whenOpen(run: () => void): void {
    if (this.connecting) this.#early.push(run);
    else run();
  }

  #touch(): void {
    if (this.#idleMs > 0) this.setTimeout(this.#idleMs);
  }

  setTimeout(ms: number, onTimeout?: () => void): this {
    clearTimeout(this.#idle);
    this.#idleMs = ms;
    if (onTimeout) this.once('timeout', onTimeout);
    if (ms > 0) this.#idle = setTimeout(() => this.emit('timeout'), ms);
    return this;
  }
  address(): object {
    return { address: '127.0.0.1', port: 1, family: 'IPv4' };
  }
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }
  resetAndDestroy(): this {
    this.peer?.receiveReset();
    this.peer = undefined;
    return this.destroy();
  }
}
// Socket options that make no difference in the simulation.
for (const name of ['setNoDelay', 'setKeepAlive', 'ref', 'unref'])
  Object.assign(Socket.prototype, {
    [name](): object {
      return this;
    },
  });
