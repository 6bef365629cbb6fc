/** Decides when this replica may take a node from another, so that contending replicas do not take it at every scan. */
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/** Minimum time in ms between two takeovers of a node by this replica. It doubles while another replica contends. */
const waitMs = { first: 5000, longest: 320_000 };
const nodesMax = 20_000;

interface Takeover {
  readonly atMs: number;
  readonly waitMs: number;
}

export class Takeovers {
  readonly #last = new BoundedMap<string, Takeover>(nodesMax, 'oldest');

  mayTake(id: string, nowMs = performance.now()): boolean {
    const last = this.#last.get(id);
    return last === undefined || nowMs - last.atMs >= last.waitMs;
  }

  /** Counts a takeover. If no other replica took the node back within twice the wait, the minimum wait applies again. */
  count(id: string, nowMs = performance.now()): void {
    const last = this.#last.get(id);
    const isContested = last !== undefined && nowMs - last.atMs < 2 * last.waitMs;
    const next = isContested ? Math.min(2 * last.waitMs, waitMs.longest) : waitMs.first;
    this.#last.set(id, { atMs: nowMs, waitMs: next });
  }
}
