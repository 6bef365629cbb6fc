/**
 * Decides which replicas are dead, by when their status reports arrived here. A replica that reported its end is dead at once. One
 * that never reported is dead once this replica has followed the status topic for a while.
 * Silence of others counts only up to the last of its own reports that this replica has read back, because after that it may itself
 * be cut off from the topic. Nor does it count while this process was suspended.
 * A replica that reports a stopped fold cannot write to the log, so for its nodes it counts as silent.
 */
import type { Seen, StatusBoard } from '../gateways/status-board.ts';

/** An owner that was silent for longer may lose its nodes. */
const silentSeconds = 5;
/** Two checks so far apart mean that this process was suspended or starved; it checks twice a second. */
const starvedMs = 1500;

export class ReplicaLiveness {
  readonly #self: string;
  readonly #board: StatusBoard;
  /** Since when this process has run without a pause and has read back its own reports; monotonic, ms. */
  #resumedMs = performance.now();
  #checkedMs = this.#resumedMs;
  /** Since when each replica reports that its fold stopped, monotonic ms. */
  readonly #haltedSinceMs = new Map<string, number>();

  constructor(self: string, board: StatusBoard) {
    this.#self = self;
    this.#board = board;
  }

  /** Returns a function that says whether an owner may lose its nodes. Reads the board once, so use the function for one scan only. */
  check(): (owner: string | null) => boolean {
    const nowMs = performance.now();
    const readBackMs = this.#board.readBackMs(this.#self);
    const isDeaf = (nowMs - readBackMs) / 1000 > silentSeconds;
    if (isDeaf || nowMs - this.#checkedMs > starvedMs) this.#resumedMs = nowMs;
    this.#checkedMs = nowMs;
    const replicas = this.#board.controlPlanes();
    const names = new Set(replicas.map(({ report }) => report.name));
    for (const name of this.#haltedSinceMs.keys()) if (!names.has(name)) this.#haltedSinceMs.delete(name);
    const lastAlive = new Map(replicas.map((seen) => [seen.report.name, this.#lastAliveMs(seen, nowMs)]));
    return (owner) => {
      if (owner === null) return true;
      if (owner === this.#self) return false;
      return (readBackMs - Math.max(lastAlive.get(owner) ?? 0, this.#resumedMs)) / 1000 > silentSeconds;
    };
  }

  /** When the last report of a replica that follows the log arrived. */
  #lastAliveMs({ report: { name, halted }, seenMs }: Seen, nowMs: number): number {
    if (halted === undefined) {
      this.#haltedSinceMs.delete(name);
      return seenMs;
    }
    const sinceMs = this.#haltedSinceMs.get(name) ?? nowMs;
    this.#haltedSinceMs.set(name, sinceMs);
    return Math.min(sinceMs, seenMs);
  }
}
