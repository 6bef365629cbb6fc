/**
 * Decides which replicas are dead, from the times at which their status reports arrived here. A replica that announced its
 * end is dead at once. Silence is measured only up to the time when this replica last read back its own report, because it
 * may be cut off itself. Time in which this process was suspended does not count either. A replica whose fold has stopped
 * cannot write, so it counts as silent.
 */
import type { SeenReport, StatusBoard } from '../gateways/status-board.ts';

/** Seconds of silence after which other replicas may claim an owner's nodes. */
const silentSeconds = 5;
/** Gap in ms between checks above which this process was suspended or starved. Checks normally run twice a second. */
const starvedMs = 1500;

export class ReplicaLiveness {
  readonly #self: string;
  readonly #board: StatusBoard;
  /** Monotonic time in ms since which this process has run without a pause and has read back its own reports. */
  #resumedMs = performance.now();
  #checkedMs = this.#resumedMs;
  /** Monotonic time in ms since which each replica has reported that its fold has stopped. */
  readonly #haltedSinceMs = new Map<string, number>();

  constructor(self: string, board: StatusBoard) {
    this.#self = self;
    this.#board = board;
  }

  /** Returns a function that tells whether an owner is dead. Valid for one scan, because the board is read only once. */
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

  /** Returns the arrival time of the last report in which the replica still followed the log. */
  #lastAliveMs({ report: { name, halted }, seenMs }: SeenReport, nowMs: number): number {
    if (halted === undefined) {
      this.#haltedSinceMs.delete(name);
      return seenMs;
    }
    const sinceMs = this.#haltedSinceMs.get(name) ?? nowMs;
    this.#haltedSinceMs.set(name, sinceMs);
    return Math.min(sinceMs, seenMs);
  }
}
