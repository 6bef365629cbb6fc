/**
 * How a replica ends: it fails its readiness, goes on for a while so that balancers see that, takes no new connections,
 * closes its long-lived sockets with 1001, and lets requests in flight finish. Each step is bounded in time.
 */
import type { Server } from 'node:http';
import type { Check } from '../../shared/process/health-server.ts';

/** RFC 6455: the endpoint goes away; a client connects elsewhere. */
const goingAwayCode = 1001;
/** Between our close frame and the end of the socket. */
const closeGraceMs = 1000;
const lookMs = 20;

/** As much of a WebSocket as is needed to end it. */
export interface LongSocket {
  close(code: number, reason: string): void;
  terminate(): void;
  once(event: 'close', listener: () => void): unknown;
}

export interface DrainTimes {
  /** Between the loss of readiness and the end of new connections. */
  readonly delaySeconds: number;
  /** How long requests in flight may go on after that. */
  readonly timeoutSeconds: number;
}

export class Drain {
  readonly #sockets = new Set<LongSocket>();
  #requests = 0;
  #begun = false;

  /** For readiness. */
  get check(): Check {
    return this.#begun
      ? { name: 'drain', ok: false, detail: 'this replica is closing' }
      : { name: 'drain', ok: true };
  }

  /** Ends the socket with the replica. */
  hold(socket: LongSocket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  /** Counts the requests that a server answers. */
  watch(server: Server): void {
    server.on('request', (_request, response) => {
      this.#requests++;
      response.once('close', () => {
        this.#requests--;
      });
    });
  }

  /** `onRefusing` is called when new connections are no longer taken. */
  async run(server: Server, times: DrainTimes, onRefusing: () => Promise<void>): Promise<void> {
    this.#begun = true;
    await pause(times.delaySeconds * 1000);
    server.close();
    const ended = [onRefusing(), ...[...this.#sockets].map(end)];
    const untilMs = performance.now() + times.timeoutSeconds * 1000;
    while (this.#requests > 0 && performance.now() < untilMs) await pause(lookMs);
    await Promise.all(ended);
  }
}

/** Resolves once it is closed; a client that does not answer the close frame is cut off. */
function end(socket: LongSocket): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.terminate(), closeGraceMs);
    socket.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.close(goingAwayCode, 'this replica ends');
  });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
