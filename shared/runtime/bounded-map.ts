/** A map of bounded size. Use it for keys that callers choose, so that they cannot exhaust the memory. */

/** Entries that are dropped to make room: `all` if they are cheap to recompute, or only the `oldest` one. */
export type Eviction = 'all' | 'oldest';

export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #sizeMax: number;
  readonly #dropped: Eviction;

  constructor(sizeMax: number, dropped: Eviction) {
    super();
    this.#sizeMax = sizeMax;
    this.#dropped = dropped;
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.#sizeMax && !this.has(key)) this.#makeRoom();
    return super.set(key, value);
  }

  /** Sets the entry, which becomes the newest one, and returns its value. */
  keep(key: Key, value: Value): Value {
    this.delete(key);
    this.set(key, value);
    return value;
  }

  #makeRoom(): void {
    if (this.#dropped === 'all') this.clear();
    else for (const oldest of this.keys()) return void this.delete(oldest);
  }
}
