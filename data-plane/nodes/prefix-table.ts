/**
 * Remembers prompt prefixes: how often each occurred recently, and which node received it last. The table is bounded and
 * fair. A tenant that uses more than its share loses its own entries first, beginning with the least recently used.
 */
import type { PromptPlacement } from '../../schemas/records/placements.ts';
import { withinMemory } from '../../shared/runtime/memory-limit.ts';

export interface PrefixEntry {
  /** Number of requests with this prefix, of which older ones count less. */
  weight: number;
  /** Number of the last request that `weight` includes. The requests of a group are numbered in order. */
  sequence: number;
  /** Node that last received a prompt that ends with this prefix. */
  node: string | undefined;
  placedMs: number;
}

/** Number of tenants that are examined to find the one that must lose an entry. */
const examinedMax = 8;

export class PrefixTable {
  readonly #entriesMax: number;
  /** Entries by tenant and prefix. In both kinds of maps, the least recently used comes first. */
  readonly #owners = new Map<string, Map<number, PrefixEntry>>();
  #size = 0;

  constructor(entriesMax = withinMemory(32_768)) {
    this.#entriesMax = entriesMax;
  }

  get size(): number {
    return this.#size;
  }

  countEntries(owner: string): number {
    return this.#owners.get(owner)?.size ?? 0;
  }

  get(owner: string, prefix: number): PrefixEntry | undefined {
    return this.#owners.get(owner)?.get(prefix);
  }

  /** Empties the table. Returns those entries for which a node is known. */
  takeAll(): PromptPlacement[] {
    const all: PromptPlacement[] = [];
    for (const [owner, entries] of this.#owners)
      for (const [prefix, { node }] of entries) if (node !== undefined) all.push([owner, prefix, node]);
    this.#owners.clear();
    this.#size = 0;
    return all;
  }

  /** Returns the prefix's entry, which is created if necessary, and marks it as just used. */
  use(owner: string, prefix: number): PrefixEntry {
    let entries = this.#owners.get(owner);
    if (entries === undefined) entries = new Map();
    else this.#owners.delete(owner);
    this.#owners.set(owner, entries);
    let entry = entries.get(prefix);
    if (entry === undefined) {
      entry = { weight: 0, sequence: 0, node: undefined, placedMs: 0 };
      this.#size += 1;
    } else entries.delete(prefix);
    entries.set(prefix, entry);
    if (this.#size > this.#entriesMax) this.#evict(owner, entries);
    return entry;
  }

  #evict(owner: string, entries: Map<number, PrefixEntry>): void {
    const share = Math.max(1, Math.floor(this.#entriesMax / this.#owners.size));
    let giver = owner;
    let given = entries;
    if (entries.size <= share) {
      let examined = 0;
      for (const [other, others] of this.#owners) {
        if (others.size > given.size || given === entries) {
          giver = other;
          given = others;
        }
        examined += 1;
        if (examined >= examinedMax) break;
      }
    }
    const [oldest] = given.keys();
    if (oldest === undefined) return;
    given.delete(oldest);
    this.#size -= 1;
    if (given.size === 0) this.#owners.delete(giver);
  }
}
