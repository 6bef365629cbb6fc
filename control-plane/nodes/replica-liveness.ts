/**
 * Decides which replicas are dead, by when their status reports arrived here. A replica that announced its end is dead at
 * once. Silence counts only up to this replica's own last report that it read back, because it may be cut off itself, and not
 * while this process was suspended. A replica whose fold has stopped cannot write, so it counts as silent for its nodes.
 */
import type { Seen, StatusBoard } from '../gateways/status-board.ts';

/** Silence after which an owner may lose its nodes. */
const silentSeconds = 5;
/** Gap between two checks from which this process counts as suspended or starved. It normally checks twice a second. */
const starvedMs = 1500;

export class ReplicaLiveness {
  readonly #self: string;
  readonly #board: StatusBoard;
  /** Time since which this process has run without a pause and has read back its own reports, in monotonic ms. */
  #resumedMs = performance.now();
  #checkedMs = this.#resumedMs;
  /** Time since which each replica has reported a stopped fold, in monotonic ms. */
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

  /** Arrival of the last report in which the replica still followed the log. */
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
