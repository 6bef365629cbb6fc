/** Texts that this gateway reports for an hour after the last time that it met them. */

const recentMs = 3_600_000;
/** Texts that one report names. */
const namedMax = 20;
const keptMax = 1000;

export class RecentTexts {
  /** Monotonic ms by text, the latest last. */
  readonly #lastMs = new Map<string, number>();

  add(text: string): void {
    this.#lastMs.delete(text);
    this.#lastMs.set(text, performance.now());
    if (this.#lastMs.size <= keptMax) return;
    const [oldest = ''] = this.#lastMs.keys();
    this.#lastMs.delete(oldest);
  }

  /** The latest first. */
  recent(): string[] {
    const fromMs = performance.now() - recentMs;
    const recent = [...this.#lastMs].filter(([, lastMs]) => lastMs > fromMs).map(([text]) => text);
    return recent.reverse().slice(0, namedMax);
  }
}
