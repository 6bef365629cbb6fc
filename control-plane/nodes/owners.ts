/**
 * Which replicas are gone? By what the status board saw of them here, never by their own word that they are well.
 * A replica that said good-bye is gone at once, one that was never heard of after this one has listened for a while.
 */
import type { StatusBoard } from '../../shared/status/status-board.ts';

/** An owner that was silent for longer may lose its nodes. */
const silentSeconds = 5;

export class Owners {
  readonly #self: string;
  readonly #board: StatusBoard;
  readonly #startedMs = performance.now();

  constructor(self: string, board: StatusBoard) {
    this.#self = self;
    this.#board = board;
  }

  /** One function a look: it reads the board once. */
  gone(): (owner: unknown) => boolean {
    const nowMs = performance.now();
    const seen = new Map(this.#board.controlPlanes().map(({ report, seenMs }) => [report.name, seenMs]));
    return (owner) => {
      if (owner === null) return true;
      if (owner === this.#self) return false;
      return (nowMs - (seen.get(String(owner)) ?? this.#startedMs)) / 1000 > silentSeconds;
    };
  }
}
