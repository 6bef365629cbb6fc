/**
 * What a gateway remembers of prompts' prefixes: how often each was seen lately, and the node that got it last. Bounded, and
 * shared fairly: a tenant with more than its share gives up its own entries first, the least recently used of them.
 */
import type { PromptPlacement } from '../../schemas/records/placements.ts';
import { withinMemory } from '../../shared/runtime/memory-limit.ts';

export interface PrefixEntry {
  /** Requests, those of long ago counted less. */
  weight: number;
  /** The request that was counted last, of all of its group. */
  sequence: number;
  /** The node that got a prompt which ended here. */
  node: string | undefined;
  placedMs: number;
}

/** Tenants looked at for one to give up an entry. */
const examinedMax = 8;

export class PrefixTable {
  readonly #entriesMax: number;
  /** By tenant, and by prefix; the least recently used come first in both. */
  readonly #owners = new Map<string, Map<number, PrefixEntry>>();
  #size = 0;

  constructor(entriesMax = withinMemory(32_768)) {
    this.#entriesMax = entriesMax;
  }

  get size(): number {
    return this.#size;
  }

  sizeOf(owner: string): number {
    return this.#owners.get(owner)?.size ?? 0;
  }

  get(owner: string, prefix: number): PrefixEntry | undefined {
    return this.#owners.get(owner)?.get(prefix);
  }

  /** Empties the table, and returns the entries that have a node. */
  takeAll(): PromptPlacement[] {
    const all: PromptPlacement[] = [];
    for (const [owner, entries] of this.#owners)
      for (const [prefix, { node }] of entries) if (node !== undefined) all.push([owner, prefix, node]);
    this.#owners.clear();
    this.#size = 0;
    return all;
  }

  /** The entry, new where there is none; it counts as used now. */
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
