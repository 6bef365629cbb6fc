/** A map of bounded size, for keys that callers choose: they must not be able to exhaust the memory. */

/** Entries dropped to make room: `all` if they are cheap to recompute, `oldest` for the one that was set first. */
export type Dropped = 'all' | 'oldest';

export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #sizeMax: number;
  readonly #dropped: Dropped;

  constructor(sizeMax: number, dropped: Dropped) {
    super();
    this.#sizeMax = sizeMax;
    this.#dropped = dropped;
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.#sizeMax && !this.has(key)) this.#makeRoom();
    return super.set(key, value);
  }

  /** Sets the entry as the newest and returns the value. */
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
