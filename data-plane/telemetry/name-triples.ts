/** Bounded map whose keys consist of three names. A look-up allocates no memory, which joining the names to one key would. */
export class NameTriples<Value> {
  readonly #values = new Map<string, Map<string, Map<string, Value>>>();
  readonly #max: number;
  #size = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  get(first: string, second: string, third: string): Value | undefined {
    return this.#values.get(first)?.get(second)?.get(third);
  }

  /** Adds an entry, which must not exist yet. Returns false if the map is full. */
  add(first: string, second: string, third: string, value: Value): boolean {
    if (this.#size >= this.#max) return false;
    this.#size++;
    const seconds = this.#values.get(first) ?? new Map<string, Map<string, Value>>();
    this.#values.set(first, seconds);
    const thirds = seconds.get(second) ?? new Map<string, Value>();
    seconds.set(second, thirds);
    thirds.set(third, value);
    return true;
  }

  clear(): void {
    this.#values.clear();
    this.#size = 0;
  }
}
