/** Counts things by name. Names are removed when their count becomes zero. */
export class Tally {
  readonly #counts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  add(name: string, by = 1): void {
    const count = this.of(name) + by;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
    this.#total += by;
  }

  /** Counts each name once, like `hold`. If a name has reached its bound, counts nothing and returns undefined. */
  tryHold(bounds: Readonly<Record<string, number>>): (() => void) | undefined {
    const names = Object.keys(bounds);
    return names.every((name) => this.of(name) < (bounds[name] ?? 0)) ? this.hold(names) : undefined;
  }

  /** Counts each name once. Returns a function that undoes this; further calls of the function have no effect. */
  hold(names: readonly string[]): () => void {
    const held = [...names];
    for (const name of held) this.add(name);
    return () => {
      for (const name of held.splice(0)) this.add(name, -1);
    };
  }
}
