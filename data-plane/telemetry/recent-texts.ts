/** Texts that this gateway reports for an hour after it last saw them. */

const recentMs = 3_600_000;
/** Most texts in one report. */
const namedMax = 20;
const keptMax = 1000;

export class RecentTexts {
  /** When each text was last seen, monotonic ms. The latest is last. */
  readonly #lastMs = new Map<string, number>();

  add(text: string): void {
    this.#lastMs.delete(text);
    this.#lastMs.set(text, performance.now());
    if (this.#lastMs.size <= keptMax) return;
    const [oldest = ''] = this.#lastMs.keys();
    this.#lastMs.delete(oldest);
  }

  /** Texts of the last hour, the latest first. */
  recent(): string[] {
    const fromMs = performance.now() - recentMs;
    const recent = [...this.#lastMs].filter(([, lastMs]) => lastMs > fromMs).map(([text]) => text);
    return recent.reverse().slice(0, namedMax);
  }
}
