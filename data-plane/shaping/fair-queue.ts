/**
 * A queue of many owners, who take turns: one with many entries waits for itself, and the others never for it.
 */
export class FairQueue<Entry> {
  /** In the order of their turns. Nobody without an entry stands here. */
  readonly #byOwner = new Map<string, Entry[]>();
  /** Who had the last turn, which may still be going on. */
  #last: string | undefined;

  get isEmpty(): boolean {
    return this.#byOwner.size === 0;
  }

  /** `first`: before the owner's other entries. */
  add(owner: string, entry: Entry, first = false): void {
    const entries = this.#byOwner.get(owner);
    if (entries === undefined) this.#byOwner.set(owner, [entry]);
    else if (first) entries.unshift(entry);
    else entries.push(entry);
  }

  /** Takes the next one out; its owner goes behind all others. */
  next(): Entry | undefined {
    const turn = this.#turn();
    if (turn === undefined) return undefined;
    const [owner, entries] = turn;
    const entry = entries.shift();
    this.#byOwner.delete(owner);
    if (entries.length > 0) this.#byOwner.set(owner, entries);
    this.#last = owner;
    return entry;
  }

  /** Takes one out before its turn; again is harmless. */
  delete(owner: string, entry: Entry): void {
    const left = this.#byOwner.get(owner)?.filter((one) => one !== entry) ?? [];
    if (left.length > 0) this.#byOwner.set(owner, left);
    else this.#byOwner.delete(owner);
  }

  #turn(): [string, Entry[]] | undefined {
    let own: [string, Entry[]] | undefined;
    for (const turn of this.#byOwner) {
      if (turn[0] !== this.#last) return turn;
      own = turn;
    }
    return own;
  }

  /** Takes all out. */
  drain(): Entry[] {
    const all = [...this.#byOwner.values()].flat();
    this.#byOwner.clear();
    return all;
  }
}
