/**
 * Which replicas are gone? By what the status board saw of them here, never by their own word that they are well.
 * A replica that said good-bye is gone at once, one that was never heard of after this one has listened for a while.
 * A replica that reports that its fold stopped can write nothing to the log, so for its nodes it counts as silent.
 */
import type { Seen, StatusBoard } from '../../shared/status/status-board.ts';

/** An owner that was silent for longer may lose its nodes. */
const silentSeconds = 5;

export class Owners {
  readonly #self: string;
  readonly #board: StatusBoard;
  readonly #startedMs = performance.now();
  /** Since when each replica reports that its fold stopped, monotonic ms. */
  readonly #haltedSinceMs = new Map<string, number>();

  constructor(self: string, board: StatusBoard) {
    this.#self = self;
    this.#board = board;
  }

  /** One function a look: it reads the board once. */
  gone(): (owner: string | null) => boolean {
    const nowMs = performance.now();
    const replicas = this.#board.controlPlanes();
    const names = new Set(replicas.map(({ report }) => report.name));
    for (const name of this.#haltedSinceMs.keys()) if (!names.has(name)) this.#haltedSinceMs.delete(name);
    const useful = new Map(replicas.map((seen) => [seen.report.name, this.#usefulMs(seen, nowMs)]));
    return (owner) => {
      if (owner === null) return true;
      if (owner === this.#self) return false;
      return (nowMs - (useful.get(owner) ?? this.#startedMs)) / 1000 > silentSeconds;
    };
  }

  /** When a replica was last seen to follow the log. */
  #usefulMs({ report: { name, halted }, seenMs }: Seen, nowMs: number): number {
    if (halted === undefined) {
      this.#haltedSinceMs.delete(name);
      return seenMs;
    }
    const sinceMs = this.#haltedSinceMs.get(name) ?? nowMs;
    this.#haltedSinceMs.set(name, sinceMs);
    return Math.min(sinceMs, seenMs);
  }
}
