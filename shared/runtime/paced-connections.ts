/**
 * Limits the rate at which a listener starts new connections, because anyone can open any number and each costs a handshake,
 * a parser and a request. Peer addresses take turns, and an address with many waiting connections must leave room for others.
 */
import type { Server, Socket } from 'node:net';
import { RateLimit } from './rate-limit.ts';
import { TurnQueue } from './turn-queue.ts';

export interface Pace {
  /** Whether a connection may start immediately, without counting against the rate. */
  readonly isExempt: (address: string | undefined) => boolean;
  /** Returns the refusal to send on a connection for which there is no room. It is not sent over TLS. */
  readonly answer: () => string;
  readonly monotonicMs?: (() => number) | undefined;
}

const rate = { perSecond: 100, burst: 16 };
const waitingMax = 512;
/** Part of the remaining waiting room that one address may use, so that addresses with few connections always find some. */
const shareOfRoom = 1 / 4;
/** Time in ms between two checks while connections are waiting. */
const lookMs = 10;

interface PaceRules extends Omit<Pace, 'answer'> {
  readonly peerPrefix: (address: string | undefined) => string;
  /** Closes a connection for which there is no room, even if it was waiting already. */
  readonly refuse: (socket: Socket) => void;
}

/** Limits the rate of a server's new connections. Call it before `listen` and before adding `connection` listeners. */
export function paceConnections(server: Server, paced: PaceRules): void {
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
  // Set the option here, because HTTP servers do not pass it on to `net.createServer`.
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

/** Whether a new connection may wait. Without room, it displaces the newest waiting one of the peer that has the most. */
function makeRoom(waiting: TurnQueue<Socket>, peer: string, refuse: PaceRules['refuse']): boolean {
  const count = waiting.countOf(peer);
  if (count < (waitingMax - waiting.size) * shareOfRoom) return true;
  const replaced = count === 0 ? waiting.takeFromMost() : undefined;
  if (replaced === undefined) return false;
  if (!replaced.destroyed) refuse(replaced);
  return true;
}
