/** A client that asks one gateway with one key, again and again, and remembers when its answer changed. */
import { setTimeout as pause } from 'node:timers/promises';
import { complete, type Gateway, type Key } from './fleet.ts';

export interface Change {
  readonly atMs: number;
  /** 0: no answer. */
  readonly status: number;
}

const troublesMax = 20;

export class Watch {
  readonly counts: Record<number, number> = {};
  /** What came first instead of a 200, with the request's moments since the beginning, ms. */
  readonly troubles: string[] = [];
  /** The first answer, and each one that differs from the one before. */
  readonly changes: Change[] = [];
  /** When a request that was accepted was sent, at the latest; monotonic, ms. */
  lastAcceptedMs = Number.NEGATIVE_INFINITY;
  #running = true;
  readonly #ended: Promise<void>;

  /** `gateway` is asked before each request: it may be another process by then. */
  constructor(gateway: () => Gateway, key: Key, pauseMs = 20) {
    this.#ended = this.#run(gateway, key, pauseMs);
  }

  get requests(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }
  /** Everything but 200. */
  get failures(): number {
    return this.requests - (this.counts[200] ?? 0);
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#ended;
  }

  /** When this answer came for the first time after `sinceMs`; infinite where it has not. */
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
