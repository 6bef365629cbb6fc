/** A limit of failed attempts a minute, for each address and for all together. Forgets at the end of each minute. */
const windowMs = 60_000;

export class AttemptLimit {
  readonly #perAddress: number;
  readonly #all: number;
  readonly #now: () => number;
  readonly #counts = new Map<string, number>();
  #total = 0;
  #untilMs = 0;

  constructor(perAddress: number, all: number, now: () => number = () => performance.now()) {
    this.#perAddress = perAddress;
    this.#all = all;
    this.#now = now;
  }

  /** False where there were too many. */
  allows(address: string): boolean {
    const nowMs = this.#now();
    if (nowMs >= this.#untilMs) {
      this.#counts.clear();
      this.#total = 0;
      this.#untilMs = nowMs + windowMs;
    }
    return (this.#counts.get(address) ?? 0) < this.#perAddress && this.#total < this.#all;
  }

  /** Counts one. */
  add(address: string): void {
    this.#counts.set(address, (this.#counts.get(address) ?? 0) + 1);
    this.#total++;
  }
}
