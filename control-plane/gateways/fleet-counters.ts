/**
 * Keeps the counters of all gateways. Republishes the counts of silent replicas every hour, because the topic keeps records
 * for only a day. Counts from a restored backup belong to a silent replica too. It also compares the sums with the usage
 * rows, and requests missing rows.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import { hourMs } from '../../schemas/durations.ts';
import {
  type CounterRecord,
  counterEntriesMax,
  countersTopic,
  rowsReplica,
} from '../../schemas/records/limits.ts';
import { type CounterCopy, openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterFeed } from '../../shared/limits/counter-feed.ts';
import { measureCounterFeed } from '../../shared/limits/counter-feed-metrics.ts';
import {
  CounterState,
  counterKey,
  isCounted,
  type ReplicaFacts,
  type Sum,
} from '../../shared/limits/counters.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import { type LimitTopic, openLimitTopic } from '../../shared/log/limit-topic.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import type { AppliedUsage, UsageReader } from '../usage/usage-store.ts';
import { countedTokens, type FleetSettings } from './open-fleet.ts';

/** Time in ms without a record after which a replica counts as silent. Live replicas publish every hour. */
const silentMs = 2 * hourMs;
/** Interval in ms between requests for missing usage rows. */
const gapsEveryMs = 200;
/**
 * Longest wait in ms for the topic to be read to its end before counts of silent replicas are published for the first time.
 */
const catchUpTimeoutMs = 30_000;
/** Interval in ms between two sweeps, which republish silent replicas and compare sums. */
const sweepEveryMs = 60_000;
/** Number of sweeps without a change before sums are compared, because counters and rows arrive at different times. */
const stillSweeps = 3;

export interface FleetCountersOptions {
  readonly process: string;
  readonly topic: LimitTopic;
  readonly copy: CounterCopy;
  readonly usage: Pick<UsageReader, 'poolTotals'>;
  readonly logger: LineLogger;
  readonly now?: () => number;
}

/** Tokens that an organisation used in one period, according to the counters and to the usage rows. */
export interface CounterDifference {
  readonly organisation: string;
  readonly period: string;
  readonly counters: number;
  readonly rows: number;
}

interface TokenComparison {
  readonly counters: number;
  readonly rows: number;
  readonly sweeps: number;
}

export class FleetCounters {
  /** Differences between the gateways' counters and the usage rows, found once both have stopped changing. */
  differences: readonly CounterDifference[] = [];
  readonly feed: CounterFeed;
  readonly #state = new CounterState();
  readonly #options: FleetCountersOptions;
  readonly #compared = new Map<string, TokenComparison>();
  #gaps: (readonly [string, number])[] = [];
  #timers: NodeJS.Timeout[] = [];
  #publishing: Promise<void> | undefined;

  constructor(options: FleetCountersOptions) {
    this.#options = options;
    const { topic, copy, logger, process, now } = options;
    copy.loadInto(this.#state);
    this.feed = new CounterFeed({
      ...{ topic, copy, logger, process, state: this.#state },
      ...(now && { now }),
      read: (record, nowMs) => this.#state.apply(record, nowMs).dropped,
    });
  }

  start(): void {
    this.feed.start();
    this.#timers = [
      setInterval(() => this.#askForMissing(), gapsEveryMs).unref(),
      setInterval(() => this.sweep(), sweepEveryMs).unref(),
    ];
    // Counts from a restored backup are published at once, because no other process has them.
    void this.feed.caughtUp(catchUpTimeoutMs).then((isCaughtUp) => isCaughtUp && this.#publishSilent());
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#publishing;
    await this.feed.stop();
  }

  /** Total number of tokens by which the counters and the usage rows differ. */
  get differenceTokens(): number {
    return this.differences.reduce((sum, { counters, rows }) => sum + Math.abs(counters - rows), 0);
  }

  /** Queues requests for the usage rows that are missing. Call it whenever usage rows have been applied. */
  onApplied({ gaps }: Pick<AppliedUsage, 'gaps'>): void {
    this.#gaps.push(...gaps.map(({ incarnation, next }) => [incarnation, next] as const));
  }

  get refused(): RefusedRecords | undefined {
    return this.#options.topic.refused;
  }

  /** Returns the usage that all gateways together counted for the subject in the period. */
  used(subject: string, period: string): Sum {
    return this.#state.sum(counterKey(subject, period));
  }

  /** Returns the usage that each replica counted for the subject in the period. */
  valuesOf(subject: string, period: string): { readonly replica: ReplicaFacts; readonly sum: Sum }[] {
    return this.#state.valuesOf(counterKey(subject, period));
  }

  /** Yields all counters, for a gateway without its own copy: first a line with the topic position, then records. */
  *lines(): Generator<string> {
    // The position comes first, so that the receiver can read from the topic whatever arrives during the transfer.
    yield `${JSON.stringify({ position: this.feed.position })}\n`;
    for (const { id, process, name, ownMs } of [...this.#state.replicas])
      for (const record of this.#recordsOf(id, process, name, ownMs)) yield `${JSON.stringify(record)}\n`;
  }

  /** Republishes the counts of silent replicas, and compares the sums with the usage rows. */
  sweep(): void {
    this.#compare();
    this.#publishSilent();
  }

  #publishSilent(): void {
    const nowMs = this.feed.logNow();
    const silent = this.#state.replicas.filter(
      ({ ownMs, anyMs }) => nowMs - ownMs >= silentMs && nowMs - anyMs >= hourMs,
    );
    for (const { id, process, name, ownMs } of silent)
      this.#publish(this.#recordsOf(id, process, name, ownMs));
  }

  #recordsOf(replica: string, process: string, name: string | undefined, at: number): CounterRecord[] {
    const nowMs = this.feed.logNow();
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

  #askForMissing(): void {
    const gaps = this.#gaps.splice(0, counterEntriesMax);
    if (gaps.length === 0) return;
    const { process } = this.#options;
    this.#publish([{ v: 1, replica: rowsReplica, process, at: this.feed.logNow(), entries: [], gaps }]);
  }

  #publish(records: readonly CounterRecord[]): void {
    if (records.length === 0) return;
    const before = this.#publishing;
    this.#publishing = (async () => {
      await before;
      // A record that cannot be published is published again by the next hourly repetition.
      for (const record of records) await this.feed.publish(record);
    })();
  }

  #compare(): void {
    const nowMs = this.feed.logNow();
    const differences: CounterDifference[] = [];
    const rows = new Map(
      this.#options.usage
        .poolTotals()
        .map(({ organisation, period, tokens }) => [counterKey(organisation, period), tokens]),
    );
    // Skips visitors' counters, because their usage rows count turns, not tokens.
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
        'the counters of the gateways differ from the usage rows; after a data folder was lost, they differ until the period ends',
      );
  }
}

/** Opens all counters, their copy in the data folder and their metrics. Throws the errors from `shared/runtime/sqlite.ts`. */
export function openFleetCounters(
  settings: FleetSettings,
  usage: UsageReader,
  registry: Registry,
): FleetCounters {
  const { logUrl, dataDir, logger } = settings;
  const topic = openLimitTopic(logUrl, {
    topic: countersTopic,
    tokens: countedTokens(settings),
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the counters topic'),
  });
  const copy = openCounterCopy(join(dataDir, 'counters.db'));
  const counters = new FleetCounters({ process: randomUUID(), topic, copy, usage, logger });
  new ObservedMetrics(registry).gauge(
    'headgate_counters_difference_tokens',
    'difference between the counters of the gateways and the folded usage rows, in tokens, at rest',
    () => counters.differenceTokens,
  );
  measureCounterFeed(registry, () => counters.feed.counts);
  return counters;
}
