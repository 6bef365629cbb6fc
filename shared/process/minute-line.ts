/** Counts what happens too often for a log line each, by cause, and writes one line a minute with what came since. */

export class MinuteLine {
  readonly totals = new Map<string, number>();
  readonly #since = new Map<string, number>();
  readonly #write: (counts: Record<string, number>) => void;
  #timer: NodeJS.Timeout | undefined;

  /** The first of a quiet minute is written at once. */
  constructor(write: (counts: Record<string, number>) => void) {
    this.#write = write;
  }

  add(cause: string, count = 1): void {
    this.totals.set(cause, (this.totals.get(cause) ?? 0) + count);
    this.#since.set(cause, (this.#since.get(cause) ?? 0) + count);
    if (this.#timer === undefined) this.#flush();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #flush(): void {
    this.#timer = undefined;
    if (this.#since.size === 0) return;
    const counts = Object.fromEntries(this.#since);
    this.#since.clear();
    this.#timer = setTimeout(() => this.#flush(), 60_000).unref();
    this.#write(counts);
  }
}
