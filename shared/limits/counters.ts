/**
 * Counts tokens and turns across all gateways. Each data folder is a replica that publishes cumulative values. For each
 * replica, subject and period the larger value wins, so records may arrive in any order. The code is pure: time and storage
 * are arguments.
 */
import { dayMs } from '../../schemas/durations.ts';
import { type CounterEntry, type CounterRecord, visitorPrefix } from '../../schemas/records/limits.ts';

export interface Sum {
  readonly tokens: number;
  readonly turns: number;
}

interface Value {
  tokens: number;
  turns: number;
}

/** Sum of the counts that all replicas report for one subject in one period. */
interface Account {
  readonly tokens: number;
  readonly turns: number;
  readonly values: Map<number, Value>;
}

/** Facts about a replica, apart from the values that it has counted. */
export interface ReplicaFacts {
  readonly id: string;
  process: string;
  name: string | undefined;
  /** Times at which the replica's own process (`ownMs`) and any process (`anyMs`) last reported it, in ms since 1970. */
  ownMs: number;
  anyMs: number;
}

export const nothing: Sum = { tokens: 0, turns: 0 };

/** Bounds on how many replicas and accounts are kept, so that hostile records cannot exhaust the memory. */
const replicasMax = 10_000;
const accountsMax = 1_000_000;
/** Number of days from the first day of a period until the period's entries expire. */
const entryDays = 33;

export function counterKey(subject: string, period: string): string {
  return `${subject} ${period}`;
}

/** Time when the entries of a period expire, in ms since 1970. */
export function entriesEndMs(period: string): number {
  return Date.parse(period.length === 7 ? `${period}-01` : period) + entryDays * dayMs;
}

/** Whether entries of a period count at this time, which means that the period has begun and its entries have not expired. */
export function isCounted(period: string, nowMs: number): boolean {
  const endMs = entriesEndMs(period);
  return endMs > nowMs && endMs - nowMs <= (entryDays + 2) * dayMs;
}

/** Values that all replicas except the reader's own have counted. */
export class CounterState {
  readonly replicas: ReplicaFacts[] = [];
  readonly #indexes = new Map<string, number>();
  readonly #accounts = new Map<string, Account>();
  /** Values that changed since the last `takeUnsaved`. Maps each account key to the indexes of the replicas. */
  readonly #unsaved = new Map<string, Set<number>>();

  /** Merges a record. `changed` lists keys whose sums grew. `dropped` counts entries that are outdated or beyond bounds. */
  apply(
    record: CounterRecord,
    nowMs: number,
  ): { readonly changed: readonly string[]; readonly dropped: number } {
    const index = this.#indexOf(record, nowMs);
    if (index === undefined) return { changed: [], dropped: record.entries.length };
    const changed: string[] = [];
    let dropped = 0;
    for (const entry of record.entries) {
      const outcome = this.#merge(index, entry, nowMs);
      if (outcome === 'dropped') dropped++;
      else if (outcome === 'grown') changed.push(counterKey(entry[0], entry[1]));
    }
    return { changed, dropped };
  }

  sum(key: string): Sum {
    return this.#accounts.get(key) ?? nothing;
  }

  value(replica: string, key: string): Sum {
    const index = this.#indexes.get(replica);
    return (index === undefined ? undefined : this.#accounts.get(key)?.values.get(index)) ?? nothing;
  }

  /** Values that each replica reports for one account. */
  valuesOf(key: string): { readonly replica: ReplicaFacts; readonly sum: Sum }[] {
    return [...(this.#accounts.get(key)?.values ?? [])].flatMap(([index, sum]) => {
      const replica = this.replicas[index];
      return replica === undefined ? [] : [{ replica, sum }];
    });
  }

  keys(): IterableIterator<string> {
    return this.#accounts.keys();
  }

  *entriesOf(replica: string): Generator<CounterEntry> {
    const index = this.#indexes.get(replica);
    if (index === undefined) return;
    for (const [key, { values }] of this.#accounts) {
      const value = values.get(index);
      if (value !== undefined) yield entryOf(key, value);
    }
  }

  /** Removes expired entries and returns their keys. */
  expire(nowMs: number): string[] {
    const ended = [...this.#accounts.keys()].filter((key) => entriesEndMs(periodIn(key)) <= nowMs);
    for (const key of ended) {
      this.#accounts.delete(key);
      this.#unsaved.delete(key);
    }
    return ended;
  }

  /** Yields the values that changed since the last call, so that they can be written to the copy on disk. */
  *takeUnsaved(): Generator<{ readonly replica: string; readonly entry: CounterEntry }> {
    for (const [key, indexes] of this.#unsaved)
      for (const index of indexes) {
        const value = this.#accounts.get(key)?.values.get(index);
        const replica = this.replicas[index];
        if (value !== undefined && replica !== undefined)
          yield { replica: replica.id, entry: entryOf(key, value) };
      }
    this.#unsaved.clear();
  }

  /** Adds a replica's entries from the copy on disk. Their times were checked when they were first read from the topic. */
  restore({ id, process, name, ownMs, anyMs }: ReplicaFacts, entries: readonly CounterEntry[]): void {
    const named = name === undefined ? {} : { name };
    const record: CounterRecord = { v: 1, replica: id, process, at: ownMs, entries, ...named };
    const index = this.#indexOf(record, Math.max(ownMs, anyMs));
    if (index === undefined) return;
    for (const entry of entries) this.#merge(index, entry, Date.parse(entry[1]));
    const known = this.replicas[this.#indexes.get(id) ?? -1];
    if (known !== undefined) known.anyMs = Math.min(known.anyMs, anyMs);
  }

  #indexOf({ replica: id, process, name, at }: CounterRecord, nowMs: number): number | undefined {
    const atMs = Math.min(at, nowMs);
    const index = this.#indexes.get(id);
    const known = index === undefined ? undefined : this.replicas[index];
    if (known !== undefined) {
      known.ownMs = Math.max(known.ownMs, atMs);
      known.anyMs = Math.max(known.anyMs, nowMs);
      if (atMs >= known.ownMs) {
        known.process = process;
        known.name = name ?? known.name;
      }
      return index;
    }
    if (this.replicas.length >= replicasMax) return undefined;
    this.replicas.push({ id, process, name, ownMs: atMs, anyMs: nowMs });
    this.#indexes.set(id, this.replicas.length - 1);
    return this.replicas.length - 1;
  }

  #merge(index: number, entry: CounterEntry, nowMs: number): 'grown' | 'same' | 'dropped' {
    const [subject, period, tokens, turns] = entry;
    const key = counterKey(subject, period);
    let account = this.#accounts.get(key) as { tokens: number; turns: number; values: Map<number, Value> };
    if (account === undefined) {
      if (!isCounted(period, nowMs) || this.#accounts.size >= accountsMax) return 'dropped';
      account = { tokens: 0, turns: 0, values: new Map() };
      this.#accounts.set(key, account);
    }
    const value = account.values.get(index) ?? { tokens: 0, turns: 0 };
    if (tokens <= value.tokens && turns <= value.turns) return 'same';
    const [moreTokens, moreTurns] = [Math.max(tokens - value.tokens, 0), Math.max(turns - value.turns, 0)];
    value.tokens += moreTokens;
    value.turns += moreTurns;
    account.tokens += moreTokens;
    account.turns += moreTurns;
    account.values.set(index, value);
    const unsaved = this.#unsaved.get(key);
    if (unsaved === undefined) this.#unsaved.set(key, new Set([index]));
    else unsaved.add(index);
    return 'grown';
  }
}

function periodIn(key: string): string {
  return key.slice(key.indexOf(' ') + 1);
}

function entryOf(key: string, { tokens, turns }: Sum): CounterEntry {
  const space = key.indexOf(' ');
  return [key.slice(0, space), key.slice(space + 1), tokens, turns];
}

/** Counts that a gateway stores durably in its own data folder. */
export interface OwnCounters {
  readonly replica: string;
  get(key: string): Sum | undefined;
  /** Whether a process with this id has run in the gateway's data folder. */
  isOwnProcess(process: string): boolean;
}

export type ReplicaConflict = 'another process' | 'larger values';

/** Detects a copied or restored data folder: the log names another process for the folder or has larger values. */
export function conflictOf(
  record: CounterRecord,
  own: OwnCounters,
  nowMs: number,
): ReplicaConflict | undefined {
  if (record.replica !== own.replica) return undefined;
  if (!own.isOwnProcess(record.process)) return 'another process';
  const isMore = record.entries.some(([subject, period, tokens, turns]) => {
    if (subject.startsWith(visitorPrefix) || !isCounted(period, nowMs)) return false;
    const known = own.get(counterKey(subject, period)) ?? nothing;
    return tokens > known.tokens || turns > known.turns;
  });
  return isMore ? 'larger values' : undefined;
}

/** Longest time in ms between a change of an entry and its publication. */
const publishMsMax = 60_000;
/** Longest time in ms for which a count stays unpublished when an allowance is nearly used up. */
const urgentMs = 200;
/** Divisor: when an allowance nears its end, all live gateways together leave at most 1/64 of what remains unpublished. */
const urgentPart = 64;

/** Whether a number of unpublished tokens is too large to hold back when `left` tokens of an allowance remain. */
export function isNearEnd(tokens: number, left: number, live: number): boolean {
  return tokens >= left / urgentPart / Math.max(live, 1);
}

interface UnpublishedTokens {
  readonly sinceMs: number;
  tokens: number;
}

/** Decides when the changed entries of a replica are published. */
export class PublishPlan {
  /** Entries that changed since they were last published, by key. */
  readonly #unpublished = new Map<string, UnpublishedTokens>();
  /** Total allowance in tokens by key. Unlimited keys are absent. */
  readonly #limits = new Map<string, number>();

  get size(): number {
    return this.#unpublished.size;
  }

  /** Notes that an entry grew. `limit` is the subject's allowance in tokens, null if unlimited, undefined if unchanged. */
  grown(key: string, tokens: number, nowMs: number, limit?: number | null): void {
    if (limit === null) this.#limits.delete(key);
    else if (limit !== undefined) this.#limits.set(key, limit);
    const waiting = this.#unpublished.get(key);
    if (waiting === undefined) this.#unpublished.set(key, { sinceMs: nowMs, tokens });
    else waiting.tokens += tokens;
  }

  /** Removes and returns the keys that are due for publication. `used` returns the sum over all replicas. */
  take(nowMs: number, live: number, used: (key: string) => number): string[] {
    const due: string[] = [];
    for (const [key, waiting] of this.#unpublished) {
      const ageMs = nowMs - waiting.sinceMs;
      // Once one entry is due, publish all the others too, because readers pay more for a record than for an entry.
      if (ageMs >= publishMsMax || ageMs < 0) return this.takeAll();
      if (this.#isUrgent(key, waiting.tokens, live, used)) due.push(key);
    }
    for (const key of due) this.#unpublished.delete(key);
    return due;
  }

  takeAll(): string[] {
    const all = [...this.#unpublished.keys()];
    this.#unpublished.clear();
    return all;
  }

  #isUrgent(key: string, tokens: number, live: number, used: (key: string) => number): boolean {
    // A visitor has so few turns that each one matters, so publish every turn at once.
    if (key.startsWith(visitorPrefix)) return true;
    const limit = this.#limits.get(key);
    return limit !== undefined && isNearEnd(tokens, Math.max(limit - used(key), 0), live);
  }

  /** Forgets what is planned for these keys, because their entries have expired. */
  forget(keys: readonly string[]): void {
    for (const key of keys) {
      this.#limits.delete(key);
      this.#unpublished.delete(key);
    }
  }
}

/** Interval in ms between two checks for entries that are due for publication. */
export const publishEveryMs = urgentMs / 2;
