/** A queue of items from several owners. The owners take turns, so one with many items delays only itself. */
export class TurnQueue<Item> {
  /** Items by owner, in the order of the owners' next turns. Owners without items are removed. */
  readonly #byOwner = new Map<string, Item[]>();
  /** Owner whose item was taken last. The item may still be in progress, so the other owners' items come first. */
  #servedLast: string | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  countOf(owner: string): number {
    return this.#byOwner.get(owner)?.length ?? 0;
  }

  /** Adds an item. If `isFirst` is set, the item comes before the owner's other items. */
  add(owner: string, item: Item, isFirst = false): void {
    const items = this.#byOwner.get(owner);
    if (items === undefined) this.#byOwner.set(owner, [item]);
    else if (isFirst) items.unshift(item);
    else items.push(item);
    this.#size++;
  }

  /** Returns the next item without removing it. */
  peek(): Item | undefined {
    return this.#byOwner.get(this.#nextOwner() ?? '')?.[0];
  }

  /** Removes and returns the next item. Its owner then comes after all other owners. */
  take(): Item | undefined {
    const owner = this.#nextOwner();
    if (owner === undefined) return undefined;
    const items = this.#byOwner.get(owner) ?? [];
    const item = items.shift();
    this.#byOwner.delete(owner);
    if (items.length > 0) this.#byOwner.set(owner, items);
    this.#servedLast = owner;
    this.#size--;
    return item;
  }

  /** Removes an item before its turn. Has no effect if the item is not in the queue. */
  remove(owner: string, item: Item): void {
    const items = this.#byOwner.get(owner) ?? [];
    const index = items.indexOf(item);
    if (index < 0) return;
    items.splice(index, 1);
    if (items.length === 0) this.#byOwner.delete(owner);
    this.#size--;
  }

  /** Removes and returns the newest item of the owner with the most items, or undefined if no owner has two. */
  takeFromMost(): Item | undefined {
    let most: Item[] = [];
    for (const items of this.#byOwner.values()) if (items.length > most.length) most = items;
    if (most.length < 2) return undefined;
    this.#size--;
    return most.pop();
  }

  #nextOwner(): string | undefined {
    const [first, second] = this.#byOwner.keys();
    return first === this.#servedLast && second !== undefined ? second : first;
  }
}
