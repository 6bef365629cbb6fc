/** A client that repeatedly sends requests with one key to one gateway and records when the response changes. */
import { setTimeout as pause } from 'node:timers/promises';
import { complete, type Gateway, type Key } from './fleet.ts';

export interface Change {
  readonly atMs: number;
  /** HTTP status, or 0 if there was no response. */
  readonly status: number;
}

const troublesMax = 20;

export class Watch {
  readonly counts: Record<number, number> = {};
  /** The first results other than a 200, with the time of each request in ms since the watch began. */
  readonly troubles: string[] = [];
  /** The first response, and each response that differs from the previous one. */
  readonly changes: Change[] = [];
  /** Time at which the last accepted request was sent, on the monotonic clock in ms. */
  lastAcceptedMs = Number.NEGATIVE_INFINITY;
  #running = true;
  readonly #ended: Promise<void>;

  /** `gateway` is called before each request, because the gateway's process may have been replaced. */
  constructor(gateway: () => Gateway, key: Key, pauseMs = 20) {
    this.#ended = this.#run(gateway, key, pauseMs);
  }

  get requests(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }
  get failures(): number {
    return this.requests - (this.counts[200] ?? 0);
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#ended;
  }

  /** Returns the time of the first response with this status after `sinceMs`, or Infinity if there was none. */
  first(status: number, sinceMs: number): number {
    return (
      this.changes.find((change) => change.status === status && change.atMs >= sinceMs)?.atMs ?? Infinity
    );
  }

  async #run(gateway: () => Gateway, key: Key, pauseMs: number): Promise<void> {
    const beganMs = performance.now();
    const since = (ms: number): number => Math.round(ms - beganMs);
    while (this.#running) {
      const sentMs = performance.now();
      const status = await complete(gateway(), key, (what) => {
        if (this.troubles.length < troublesMax)
          this.troubles.push(`${what}, ${since(sentMs)} to ${since(performance.now())}`);
      });
      this.counts[status] = (this.counts[status] ?? 0) + 1;
      if (status === 200) this.lastAcceptedMs = sentMs;
      if (this.changes.at(-1)?.status !== status) this.changes.push({ atMs: performance.now(), status });
      await pause(pauseMs);
    }
  }
}
