/** Since when has a position been known here? Monotonic, to a second, for as long as anyone waits; never too long ago. */

const stepMs = 1000;
const entriesKept = 120;

export class KnownHeads {
  /** Ascending; of each second the last position and when it was reached. */
  readonly #entries: { readonly startMs: number; ms: number; seq: number }[] = [];

  reached(seq: number): void {
    const ms = performance.now();
    const last = this.#entries.at(-1);
    if (last && seq <= last.seq) return;
    if (last && ms - last.startMs < stepMs) Object.assign(last, { ms, seq });
    else this.#entries.push({ startMs: ms, ms, seq });
    if (this.#entries.length > entriesKept) this.#entries.shift();
  }

  /** At least so long; 0 for a position that is not known. */
  secondsSince(seq: number): number {
    const entry = this.#entries.find((each) => each.seq >= seq);
    return entry === undefined ? 0 : (performance.now() - entry.ms) / 1000;
  }
}
