/** What waits, by who brought it: one of each in turn. */
export class Rounds<Who, Item> {
  readonly #queues = new Map<Who, Item[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  countOf(who: Who): number {
    return this.#queues.get(who)?.length ?? 0;
  }

  add(who: Who, item: Item): void {
    const queue = this.#queues.get(who);
    if (queue === undefined) this.#queues.set(who, [item]);
    else queue.push(item);
    this.#size++;
  }

  /** What `shift` would give. Must not be empty, here and below. */
  first(): Item {
    const [queue = []] = this.#queues.values();
    return queue[0] as Item;
  }

  shift(): void {
    const [first] = this.#queues;
    if (first === undefined) return;
    const [who, queue] = first;
    queue.shift();
    this.#size--;
    this.#queues.delete(who);
    if (queue.length > 0) this.#queues.set(who, queue);
  }

  /** Removes the newest item of the longest queue; none where nobody has several. */
  popOfMost(): Item | undefined {
    let most: Item[] = [];
    for (const queue of this.#queues.values()) if (queue.length > most.length) most = queue;
    if (most.length < 2) return undefined;
    this.#size--;
    return most.pop();
  }
}
