/**
 * Starts a listener's connections at a bounded rate, because anyone can open any number, and each costs a handshake, a parser
 * and a request. Peer addresses take turns, and one with many waiting connections leaves room.
 */
import type { Server, Socket } from 'node:net';
import { RateLimit } from './rate-limit.ts';
import { TurnQueue } from './turn-queue.ts';

export interface Pace {
  /** Whether a connection may start at once, without being counted. */
  readonly isExempt: (address: string | undefined) => boolean;
  /** Response to a connection for which there is no room. It is not sent over TLS. */
  readonly answer: () => string;
  readonly monotonicMs?: (() => number) | undefined;
}

const rate = { perSecond: 100, burst: 16 };
/** Maximum number of waiting connections. */
const waitingMax = 512;
/** Share of the remaining room that one address may use, so that some always remains for addresses with few connections. */
const shareOfRoom = 1 / 4;
/** Time between two checks while connections wait, in ms. */
const lookMs = 10;

interface Paced extends Omit<Pace, 'answer'> {
  readonly peerPrefix: (address: string | undefined) => string;
  /** Closes a connection for which there is no room, or no longer room. */
  readonly refuse: (socket: Socket) => void;
}

/** Paces a server's connections. Call it before the server listens and before other `connection` listeners are added. */
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
  // `net.createServer` has this option, but HTTP servers do not pass it on.
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

/** Whether a peer may wait. In a full room, a newcomer replaces the newest connection of the peer with most. */
function makeRoom(waiting: TurnQueue<Socket>, peer: string, refuse: Paced['refuse']): boolean {
  const count = waiting.countOf(peer);
  if (count < (waitingMax - waiting.size) * shareOfRoom) return true;
  const replaced = count === 0 ? waiting.takeFromMost() : undefined;
  if (replaced === undefined) return false;
  if (!replaced.destroyed) refuse(replaced);
  return true;
}
