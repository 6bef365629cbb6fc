/**
 * Decides when this replica may take a node from another one. Each takeover is a commit that is kept permanently. So two replicas
 * that contend for a node, for example because neither reads the other's reports, must not write a commit with each scan.
 */
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

/**
 * Shortest time between two takeovers of a node by this replica, in ms. Doubles with each takeover while another replica
 * contends.
 */
const waitMs = { first: 5000, longest: 320_000 };
const nodesMax = 20_000;

interface Takeover {
  readonly atMs: number;
  readonly waitMs: number;
}

export class Takeovers {
  /** Last takeover of each node. */
  readonly #last = new BoundedMap<string, Takeover>(nodesMax, 'oldest');

  mayTake(id: string, nowMs = performance.now()): boolean {
    const last = this.#last.get(id);
    return last === undefined || nowMs - last.atMs >= last.waitMs;
  }

  /** Counts a takeover. If no other replica took the node back within twice the wait, the shortest wait applies again. */
  count(id: string, nowMs = performance.now()): void {
    const last = this.#last.get(id);
    const isContested = last !== undefined && nowMs - last.atMs < 2 * last.waitMs;
    const next = isContested ? Math.min(2 * last.waitMs, waitMs.longest) : waitMs.first;
    this.#last.set(id, { atMs: nowMs, waitMs: next });
  }
}
