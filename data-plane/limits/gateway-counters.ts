/**
 * Token and turn counters of one gateway, which are stored in its data folder, combined with those of all other gateways.
 * Decides what to publish and when, and detects records that another process wrote under this gateway's replica id. Neither
 * waits nor stores anything itself, so a simulation can run it.
 */
import { type CounterEntry, type CounterRecord, counterEntriesMax } from '../../schemas/records/limits.ts';
import {
  type CounterState,
  conflictOf,
  counterKey,
  isCounted,
  nothing,
  type OwnCounters,
  PublishPlan,
  type ReplicaConflict,
  type Sum,
} from '../../shared/limits/counters.ts';

/** Counters stored in a data folder. Every value that the ledger returns is durable. */
export interface CounterLedger extends OwnCounters {
  /** Counters under the current replica id. */
  entries(): Iterable<CounterEntry>;
  /** Counters under each replica id that this folder used before a conflict. */
  former(): Iterable<{ readonly replica: string; readonly entries: Iterable<CounterEntry> }>;
  /** Durably switches to a new replica id with all sums at zero. Earlier counts stay with the previous replica id. */
  renew(): void;
}

export interface GatewayCountersOptions {
  readonly ledger: CounterLedger;
  readonly state: CounterState;
  readonly process: string;
  readonly name?: string;
  /** Number of live gateways, including this one. */
  readonly live: (nowMs: number) => number;
}

export interface ReadCounters {
  readonly changed: readonly string[];
  readonly dropped: number;
  /** Set if the data folder was copied or restored. The folder has then switched to a new replica id. */
  readonly conflict?: ReplicaConflict;
}

export class GatewayCounters {
  readonly #options: GatewayCountersOptions;
  readonly #plan = new PublishPlan();
  readonly #usedTokens = (key: string): number => this.used(key).tokens;

  constructor(options: GatewayCountersOptions, nowMs: number) {
    this.#options = options;
    this.#adoptFormer(nowMs);
  }

  /** Tokens and turns that all replicas together have counted under this key. */
  used(key: string): Sum {
    const others = this.#options.state.sum(key);
    const own = this.#options.ledger.get(key) ?? nothing;
    return { tokens: others.tokens + own.tokens, turns: others.turns + own.turns };
  }

  /** Merges another replica's record. A record under this gateway's replica id is checked for a conflict. */
  read(record: CounterRecord, nowMs: number): ReadCounters {
    const { ledger, state } = this.#options;
    if (record.replica !== ledger.replica) return state.apply(record, nowMs);
    const conflict = conflictOf(record, ledger, nowMs);
    if (conflict === undefined) return { changed: [], dropped: 0 };
    ledger.renew();
    this.#plan.takeAll();
    this.#adoptFormer(nowMs);
    const { changed, dropped } = state.apply(record, nowMs);
    return { changed, dropped, conflict };
  }

  /** Schedules the publication of a counter that has grown. A counter near its `limit` is published sooner. */
  grown(key: string, tokens: number, nowMs: number, limit?: number | null): void {
    this.#plan.grown(key, tokens, nowMs, limit);
  }

  due(nowMs: number): CounterRecord[] {
    if (this.#plan.size === 0) return [];
    return this.#records(this.#plan.take(nowMs, this.#options.live(nowMs), this.#usedTokens), nowMs);
  }

  /** Returns records of all counters that have changed since they were last published. */
  rest(nowMs: number): CounterRecord[] {
    return this.#records(this.#plan.takeAll(), nowMs);
  }

  /** Returns records of all counts in this data folder, for publication at startup, hourly and after a conflict. */
  everything(nowMs: number): CounterRecord[] {
    const { ledger } = this.#options;
    this.#plan.takeAll();
    const own = this.#split(ledger.replica, countedEntries(ledger.entries(), nowMs), nowMs);
    const former = [...ledger.former()].flatMap(({ replica, entries }) =>
      this.#split(replica, countedEntries(entries, nowMs), nowMs),
    );
    // Send a record without entries, to show that this gateway exists.
    return own.length === 0 ? [this.#record(ledger.replica, [], nowMs), ...former] : [...own, ...former];
  }

  /** Marks entries for publication again, because their record was not published or may be lost. */
  unpublished({ replica, entries }: CounterRecord, nowMs: number): void {
    if (replica !== this.#options.ledger.replica) return;
    // Count all tokens of these entries as unpublished, so that subjects near their limit are published at once.
    for (const [subject, period, tokens] of entries)
      this.#plan.grown(counterKey(subject, period), tokens, nowMs);
  }

  forget(keys: readonly string[]): void {
    this.#plan.forget(keys);
  }

  #adoptFormer(nowMs: number): void {
    const { ledger, state } = this.#options;
    for (const { replica, entries } of ledger.former())
      for (const record of this.#split(replica, [...entries], nowMs)) state.apply(record, nowMs);
  }

  #records(keys: readonly string[], nowMs: number): CounterRecord[] {
    const { ledger } = this.#options;
    const entries = keys.map((key): CounterEntry => {
      const { tokens, turns } = ledger.get(key) ?? nothing;
      const space = key.indexOf(' ');
      return [key.slice(0, space), key.slice(space + 1), tokens, turns];
    });
    return this.#split(ledger.replica, entries, nowMs);
  }

  #split(replica: string, entries: readonly CounterEntry[], nowMs: number): CounterRecord[] {
    const records: CounterRecord[] = [];
    for (let at = 0; at < entries.length; at += counterEntriesMax)
      records.push(this.#record(replica, entries.slice(at, at + counterEntriesMax), nowMs));
    return records;
  }

  #record(replica: string, entries: readonly CounterEntry[], nowMs: number): CounterRecord {
    const { process, name } = this.#options;
    return { v: 1, replica, process, ...(name === undefined ? {} : { name }), at: nowMs, entries };
  }
}

function countedEntries(entries: Iterable<CounterEntry>, nowMs: number): CounterEntry[] {
  return [...entries].filter(([, period]) => isCounted(period, nowMs));
}
