/**
 * The counters of all gateways on a control plane. It reads the topic, publishes again each hour what silent replicas
 * counted, because the topic keeps a day, and publishes the usage rows of gateways of version 0.1 as the replica `rows`:
 * all control planes fold the same rows to the same sums, so it does no harm that several do. It compares the sums with the
 * folded rows, and asks on the topic for rows that are missing on the usage log.
 */
import {
  type CounterEntry,
  type CounterRecord,
  counterEntriesMax,
  rowsReplica,
} from '../../schemas/limits.ts';
import type { CounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterFeed } from '../../shared/limits/counter-feed.ts';
import {
  CounterState,
  counterKey,
  isCounted,
  type ReplicaFacts,
  type Sum,
} from '../../shared/limits/counters.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import type { LimitTopic } from '../../shared/log/limit-topic.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import type { AppliedUsage, UsageReader } from '../../shared/usage/usage-store.ts';

const hourMs = 3600_000;
/** A replica that has not published for longer is silent: it publishes each hour. */
const silentMs = 2 * hourMs;
/** How often rows of version 0.1 are published, ms. */
const rowsEveryMs = 200;
/** How often silent replicas are looked for and sums are compared, ms. */
const sweepEveryMs = 60_000;
/** Sums are compared where neither side changed in this many comparisons: counters and rows take different times. */
const stillSweeps = 3;

export interface FleetCountersOptions {
  /** Id of this process. */
  readonly process: string;
  readonly topic: LimitTopic;
  readonly copy: CounterCopy;
  readonly usage: Pick<UsageReader, 'poolTotals' | 'unnamedTotals'>;
  readonly logger: LineLogger;
  readonly now?: () => number;
}

/** Tokens of the pool in one period. */
export interface CounterDifference {
  readonly organisation: string;
  readonly period: string;
  readonly counters: number;
  readonly rows: number;
}

interface Compared {
  readonly counters: number;
  readonly rows: number;
  readonly sweeps: number;
}

export class FleetCounters {
  /** Where the counters of the gateways and the usage rows differ at rest. */
  differences: readonly CounterDifference[] = [];
  readonly feed: CounterFeed;
  readonly #state = new CounterState();
  readonly #options: FleetCountersOptions;
  readonly #changedRows = new Map<string, CounterEntry>();
  readonly #compared = new Map<string, Compared>();
  #gaps: (readonly [string, number])[] = [];
  #timers: NodeJS.Timeout[] = [];
  #publishing: Promise<void> | undefined;
  #rowsAtMs = 0;

  constructor(options: FleetCountersOptions) {
    this.#options = options;
    const { topic, copy, logger } = options;
    copy.loadInto(this.#state, this.#now());
    this.feed = new CounterFeed({
      ...{ topic, copy, logger, state: this.#state },
      now: () => this.#now(),
      read: (record, nowMs) => this.#state.apply(record, nowMs).dropped,
      onRestart: () => {
        this.#rowsAtMs = 0;
      },
    });
  }

  start(): void {
    this.feed.start();
    this.#timers = [
      setInterval(() => this.#publishRows(), rowsEveryMs).unref(),
      setInterval(() => this.sweep(), sweepEveryMs).unref(),
    ];
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#publishing;
    await this.feed.stop();
  }

  /** Over all organisations. */
  get differenceTokens(): number {
    return this.differences.reduce((sum, { counters, rows }) => sum + Math.abs(counters - rows), 0);
  }

  /** Call it with each application of usage rows. */
  onApplied({ gaps, unnamedChanged }: Pick<AppliedUsage, 'gaps' | 'unnamedChanged'>): void {
    this.#gaps.push(...gaps.map(({ incarnation, next }) => [incarnation, next] as const));
    if (unnamedChanged) this.#addUnnamed();
  }

  get refused(): RefusedRecords | undefined {
    return this.#options.topic.refused;
  }

  /** What all gateways counted. */
  used(subject: string, period: string): Sum {
    return this.#state.sum(counterKey(subject, period));
  }

  /** What each replica counted. */
  valuesOf(subject: string, period: string): { readonly replica: ReplicaFacts; readonly sum: Sum }[] {
    return this.#state.valuesOf(counterKey(subject, period));
  }

  /** All that is known, for a gateway without a copy of its own: a line with the position, then a record a line. */
  *lines(): Generator<string> {
    // Records read while this is sent are in the topic behind the position.
    yield `${JSON.stringify({ position: this.feed.position })}\n`;
    for (const { id, process, name, ownMs } of [...this.#state.replicas])
      for (const record of this.#recordsOf(id, process, name, ownMs)) yield `${JSON.stringify(record)}\n`;
  }

  /** Publishes again what silent replicas counted, and compares the sums with the rows. */
  sweep(): void {
    this.#compare();
    const nowMs = this.#now();
    const silent = this.#state.replicas.filter(
      ({ id, ownMs, anyMs }) => id !== rowsReplica && nowMs - ownMs >= silentMs && nowMs - anyMs >= hourMs,
    );
    for (const { id, process, name, ownMs } of silent)
      this.#publish(this.#recordsOf(id, process, name, ownMs));
  }

  #recordsOf(replica: string, process: string, name: string | undefined, at: number): CounterRecord[] {
    const nowMs = this.#now();
    const entries = [...this.#state.entriesOf(replica)].filter(([, period]) => isCounted(period, nowMs));
    const named = name === undefined ? {} : { name };
    const records: CounterRecord[] = [];
    for (let from = 0; from < entries.length; from += counterEntriesMax)
      records.push({
        v: 1,
        replica,
        process,
        at,
        ...named,
        entries: entries.slice(from, from + counterEntriesMax),
      });
    return records;
  }

  #addUnnamed(): void {
    const nowMs = this.#now();
    for (const { organisation, period, tokens, requests } of this.#options.usage.unnamedTotals()) {
      if (!isCounted(period, nowMs)) continue;
      const known = this.#state.value(rowsReplica, counterKey(organisation, period));
      if (tokens > known.tokens || requests > known.turns)
        this.#changedRows.set(counterKey(organisation, period), [organisation, period, tokens, requests]);
    }
  }

  #publishRows(): void {
    const { process } = this.#options;
    const nowMs = this.#now();
    if (nowMs - this.#rowsAtMs > hourMs) {
      this.#rowsAtMs = nowMs;
      this.#addUnnamed();
      for (const entry of this.#state.entriesOf(rowsReplica))
        if (!this.#changedRows.has(counterKey(entry[0], entry[1])))
          this.#changedRows.set(counterKey(entry[0], entry[1]), entry);
    }
    const gaps = this.#gaps.splice(0, counterEntriesMax);
    const entries = [...this.#changedRows.values()];
    this.#changedRows.clear();
    const records: CounterRecord[] = [];
    for (let from = 0; from < entries.length || (from === 0 && gaps.length > 0); from += counterEntriesMax)
      records.push({
        ...{ v: 1, replica: rowsReplica, process, at: nowMs },
        entries: entries.slice(from, from + counterEntriesMax),
        ...(from === 0 && gaps.length > 0 && { gaps }),
      });
    for (const record of records) this.#state.apply(record, nowMs);
    this.#publish(records);
  }

  #publish(records: readonly CounterRecord[]): void {
    if (records.length === 0) return;
    const before = this.#publishing;
    this.#publishing = (async () => {
      await before;
      // What was not published is published with the next repetition.
      for (const record of records)
        if (!(await this.feed.publish(record)) && record.replica === rowsReplica) this.#rowsAtMs = 0;
    })();
  }

  #compare(): void {
    const nowMs = this.#now();
    const differences: CounterDifference[] = [];
    const rows = new Map(
      this.#options.usage
        .poolTotals()
        .map(({ organisation, period, tokens }) => [counterKey(organisation, period), tokens]),
    );
    // Visitors have rows by turn, not by token.
    const keys = [...this.#state.keys()].filter((key) => !key.includes(':'));
    for (const key of new Set([...keys, ...rows.keys()])) {
      const now = { counters: this.#state.sum(key).tokens, rows: rows.get(key) ?? 0 };
      const before = this.#compared.get(key);
      const isStill = before?.counters === now.counters && before.rows === now.rows;
      const sweeps = isStill ? before.sweeps + 1 : 0;
      this.#compared.set(key, { ...now, sweeps });
      const [organisation = '', period = ''] = key.split(' ');
      if (!isCounted(period, nowMs)) this.#compared.delete(key);
      else if (sweeps >= stillSweeps && now.counters !== now.rows)
        differences.push({ organisation, period, ...now });
    }
    const before = this.differenceTokens;
    this.differences = differences;
    const { differenceTokens } = this;
    if (differenceTokens !== before && differenceTokens > 0)
      this.#options.logger.warn(
        { differenceTokens },
        'the counters of the gateways and the usage rows differ; after a data folder was lost they do until the end of the period',
      );
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}
