/** A map of bounded size: what a caller chooses as a key must not fill the memory. */

/** What makes room: `all` is for what is made again at little cost, `oldest` for what was set first. */
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

  /** Sets it as the newest, and returns the value. */
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
