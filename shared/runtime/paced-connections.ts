/**
 * Starts the connections of a listener at a bounded rate, because anybody can open any number, and each costs a handshake, a parser
 * and a request. One that waits is not read. Addresses take turns, and one that has many waiting leaves room for others.
 */
import type { Server, Socket } from 'node:net';
import { RateLimit } from './rate-limit.ts';
import { TurnQueue } from './turn-queue.ts';

export interface Pace {
  /** May it start at once, and uncounted? */
  readonly isExempt: (address: string | undefined) => boolean;
  /** What a client reads whose connection found no room; over TLS it reads nothing. */
  readonly answer: () => string;
  readonly monotonicMs?: (() => number) | undefined;
}

const rate = { perSecond: 100, burst: 16 };
/** Connections that wait. */
const waitingMax = 512;
/** An address may have this part of the room that is left, so some is left for any number that have few. */
const shareOfRoom = 1 / 4;
/** Between two looks while connections wait. */
const lookMs = 10;

interface Paced extends Omit<Pace, 'answer'> {
  readonly peerPrefix: (address: string | undefined) => string;
  /** Ends a connection for which there is no room, or no longer. */
  readonly refuse: (socket: Socket) => void;
}

/** Call it before the server listens, and before it has other listeners of `connection` than its own. */
export function paceConnections(server: Server, paced: Paced): void {
  const { monotonicMs = () => performance.now() } = paced;
  const limit = new RateLimit(rate, monotonicMs());
  const own = server.listeners('connection') as ((socket: Socket) => void)[];
  const start = (socket: Socket): void => {
    for (const listener of own) listener.call(server, socket);
    socket.resume();
  };
  const waiting = new TurnQueue<Socket>();
  let isLooking = false;
  const lookSoon = (): void => {
    if (isLooking || waiting.size === 0) return;
    isLooking = true;
    setTimeout(look, lookMs).unref();
  };
  const look = (): void => {
    isLooking = false;
    for (let socket = waiting.peek(); socket !== undefined; socket = waiting.peek()) {
      if (!socket.destroyed && !limit.tryAcquire(monotonicMs())) break;
      waiting.take();
      if (!socket.destroyed) start(socket);
    }
    lookSoon();
  };
  server.removeAllListeners('connection');
  // `net.createServer` has an option for it, which those of HTTP do not pass on.
  Object.assign(server, { pauseOnConnect: true });
  server.on('connection', (socket: Socket) => {
    if (paced.isExempt(socket.remoteAddress)) return start(socket);
    if (waiting.size === 0 && limit.tryAcquire(monotonicMs())) return start(socket);
    const peer = paced.peerPrefix(socket.remoteAddress);
    if (!makeRoom(waiting, peer, paced.refuse)) return paced.refuse(socket);
    waiting.add(peer, socket);
    lookSoon();
  });
}

/** May one more of a peer wait? In a full room one that has nothing waiting replaces the newest of the peer that has most. */
function makeRoom(waiting: TurnQueue<Socket>, peer: string, refuse: Paced['refuse']): boolean {
  const count = waiting.countOf(peer);
  if (count < (waitingMax - waiting.size) * shareOfRoom) return true;
  const replaced = count === 0 ? waiting.takeFromMost() : undefined;
  if (replaced === undefined) return false;
  if (!replaced.destroyed) refuse(replaced);
  return true;
}
