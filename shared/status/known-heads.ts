/**
 * When this process reached each position of the log: recent history, at a resolution of one second. Errors are on the
 * safe side: a position never seems to be known for longer than it is.
 */

const stepMs = 1000;
const entriesKept = 120;

export class KnownHeads {
  /** Ascending: for each second, the last position and when it was reached. */
  readonly #entries: { readonly startMs: number; ms: number; seq: number }[] = [];

  reached(seq: number): void {
    const ms = performance.now();
    const last = this.#entries.at(-1);
    if (last && seq <= last.seq) return;
    if (last && ms - last.startMs < stepMs) Object.assign(last, { ms, seq });
    else this.#entries.push({ startMs: ms, ms, seq });
    if (this.#entries.length > entriesKept) this.#entries.shift();
  }

  /** A lower bound; 0 for an unknown position. */
  secondsSince(seq: number): number {
    const entry = this.#entries.find((each) => each.seq >= seq);
    return entry === undefined ? 0 : (performance.now() - entry.ms) / 1000;
  }
}
