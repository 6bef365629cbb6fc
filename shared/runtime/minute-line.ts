/** Aggregates frequent events into a rate-limited log line: at most one a minute, with the counts by cause since the last. */

export class MinuteLine {
  /** Counts since the start, for metrics. */
  readonly totals = new Map<string, number>();
  readonly #unlogged = new Map<string, number>();
  readonly #write: (counts: Record<string, number>) => void;
  #timer: NodeJS.Timeout | undefined;

  /** The first event after a quiet minute is logged at once. */
  constructor(write: (counts: Record<string, number>) => void) {
    this.#write = write;
  }

  add(cause: string, count = 1): void {
    this.totals.set(cause, (this.totals.get(cause) ?? 0) + count);
    this.#unlogged.set(cause, (this.#unlogged.get(cause) ?? 0) + count);
    if (this.#timer === undefined) this.#flush();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #flush(): void {
    this.#timer = undefined;
    if (this.#unlogged.size === 0) return;
    const counts = Object.fromEntries(this.#unlogged);
    this.#unlogged.clear();
    this.#timer = setTimeout(() => this.#flush(), 60_000).unref();
    this.#write(counts);
  }
}
