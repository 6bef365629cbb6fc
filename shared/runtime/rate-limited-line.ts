/** Combines frequent events into one log line per interval, with the counts by cause since the previous line. */

export class RateLimitedLine {
  /** Number of events by cause since the process started, for metrics. */
  readonly totals = new Map<string, number>();
  readonly #unlogged = new Map<string, number>();
  readonly #write: (counts: Record<string, number>) => void;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined;

  /** `write` logs one line. The first event after a quiet interval is logged immediately. */
  constructor(write: (counts: Record<string, number>) => void, intervalMs = 60_000) {
    this.#write = write;
    this.#intervalMs = intervalMs;
  }

  /** Counts events. `cause` must be from a fixed list, because each cause has its own counter. */
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
    this.#timer = setTimeout(() => this.#flush(), this.#intervalMs).unref();
    this.#write(counts);
  }
}
