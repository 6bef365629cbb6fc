/**
 * A round-robin queue over owners: an owner with many entries delays only itself.
 */
export class FairQueue<Entry> {
  /** In round-robin order. Owners without entries are removed. */
  readonly #byOwner = new Map<string, Entry[]>();
  /** The owner that was served last; its job may still run. */
  #lastOwner: string | undefined;

  get isEmpty(): boolean {
    return this.#byOwner.size === 0;
  }

  /** `first`: before the owner's other entries. */
  enqueue(owner: string, entry: Entry, first = false): void {
    const entries = this.#byOwner.get(owner);
    if (entries === undefined) this.#byOwner.set(owner, [entry]);
    else if (first) entries.unshift(entry);
    else entries.push(entry);
  }

  /** Removes the next entry and moves its owner behind all others. */
  dequeue(): Entry | undefined {
    const next = this.#nextOwner();
    if (next === undefined) return undefined;
    const [owner, entries] = next;
    const entry = entries.shift();
    this.#byOwner.delete(owner);
    if (entries.length > 0) this.#byOwner.set(owner, entries);
    this.#lastOwner = owner;
    return entry;
  }

  /** Removes an entry before its turn. Idempotent. */
  remove(owner: string, entry: Entry): void {
    const left = this.#byOwner.get(owner)?.filter((one) => one !== entry) ?? [];
    if (left.length > 0) this.#byOwner.set(owner, left);
    else this.#byOwner.delete(owner);
  }

  /** The first owner that was not served last; else the one that was. */
  #nextOwner(): [string, Entry[]] | undefined {
    let servedLast: [string, Entry[]] | undefined;
    for (const next of this.#byOwner) {
      if (next[0] !== this.#lastOwner) return next;
      servedLast = next;
    }
    return servedLast;
  }

  /** Removes and returns all entries. */
  drain(): Entry[] {
    const all = [...this.#byOwner.values()].flat();
    this.#byOwner.clear();
    return all;
  }
}
