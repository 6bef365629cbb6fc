/** Shuts a replica down in timed steps: reports not ready, refuses connections, closes WebSockets, finishes requests. */

import type { Server } from 'node:http';
import type { Check } from '../../shared/runtime/health-server.ts';
import { sleep } from '../../shared/runtime/retry.ts';

/** Close code "going away" (RFC 6455, 1001), after which clients reconnect to another replica. */
const goingAwayCode = 1001;
/** Time in ms between our close frame and the termination of the socket. */
const closeGraceMs = 1000;
const pollMs = 20;

/** The part of a WebSocket that a shutdown needs. */
export interface ClosableSocket {
  close(code: number, reason: string): void;
  terminate(): void;
  once(event: 'close', listener: () => void): unknown;
}

export interface DrainTimes {
  /** Seconds between reporting itself as not ready and refusing new connections. */
  readonly delaySeconds: number;
  /** Seconds that requests in flight may take after new connections are refused. */
  readonly timeoutSeconds: number;
}

export class Drain {
  readonly #sockets = new Set<ClosableSocket>();
  #requests = 0;
  #isDraining = false;

  /** Readiness check, which fails during a shutdown. */
  get check(): Check {
    return this.#isDraining
      ? { name: 'drain', ok: false, detail: 'this replica is closing' }
      : { name: 'drain', ok: true };
  }

  /** Registers a WebSocket, so that a shutdown closes it. */
  track(socket: ClosableSocket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  countRequests(server: Server): void {
    server.on('request', (_request, response) => {
      this.#requests++;
      response.once('close', () => {
        this.#requests--;
      });
    });
  }

  /** Shuts the server down. Calls `onRefusing` once new connections are refused. */
  async run(server: Server, times: DrainTimes, onRefusing: () => Promise<void>): Promise<void> {
    this.#isDraining = true;
    await sleep(times.delaySeconds * 1000);
    server.close();
    const ended = [onRefusing(), ...[...this.#sockets].map(closeSocket)];
    const untilMs = performance.now() + times.timeoutSeconds * 1000;
    while (this.#requests > 0 && performance.now() < untilMs) await sleep(pollMs);
    await Promise.all(ended);
  }
}

/** Closes a socket and resolves once it is closed. Terminates it if the client does not answer the close frame. */
function closeSocket(socket: ClosableSocket): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.terminate(), closeGraceMs);
    socket.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.close(goingAwayCode, 'this replica ends');
  });
}
