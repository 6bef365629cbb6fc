/** Remembers texts that were seen during the last hour, for the gateway's reports. */

const recentMs = 3_600_000;
/** Maximum number of texts in one report. */
const namedMax = 20;
const keptMax = 1000;

export class RecentTexts {
  /** Time at which each text was last seen, in monotonic ms. The text seen last comes last. */
  readonly #lastMs = new Map<string, number>();

  add(text: string): void {
    this.#lastMs.delete(text);
    this.#lastMs.set(text, performance.now());
    if (this.#lastMs.size <= keptMax) return;
    const [oldest = ''] = this.#lastMs.keys();
    this.#lastMs.delete(oldest);
  }

  /** Texts that were seen during the last hour, latest first. */
  recent(): string[] {
    const fromMs = performance.now() - recentMs;
    const recent = [...this.#lastMs].filter(([, lastMs]) => lastMs > fromMs).map(([text]) => text);
    return recent.reverse().slice(0, namedMax);
  }
}
