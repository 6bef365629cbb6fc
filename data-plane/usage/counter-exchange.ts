/**
 * Exchanges counters with the other gateways. Publishes the outbox's counters when gateway-counters.ts says so, and reads the
 * other gateways' counters. Nothing waits for the topic: while it is unreachable, a gateway continues with the counters that
 * it has.
 */
import { hourMs } from '../../schemas/durations.ts';
import type { CounterEntry, CounterRecord, UsageGapEntry } from '../../schemas/records/limits.ts';
import { rowsReplica } from '../../schemas/records/limits.ts';
import type { CounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterFeed } from '../../shared/limits/counter-feed.ts';
import { type CounterState, counterKey, publishEveryMs } from '../../shared/limits/counters.ts';
import type { LimitTopic } from '../../shared/log/limit-topic.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { within } from '../../shared/runtime/retry.ts';
import { GatewayCounters } from '../limits/gateway-counters.ts';
import type { Outbox } from './outbox.ts';
import type { AccountLimit } from './worker-messages.ts';

/** Time in ms for which another gateway counts as live after its last record. Live gateways publish one every hour. */
const liveMs = 1.1 * hourMs;
/** Maximum time in ms to read the topic before the first record is published, and to publish the rest when stopping. */
const catchUpTimeoutMs = 3_000;
const drainTimeoutMs = 1_000;

export interface CounterExchangeOptions {
  readonly outbox: Outbox;
  readonly copy: CounterCopy;
  readonly state: CounterState;
  readonly topic: LimitTopic;
  readonly name: string;
  readonly logger: LineLogger;
  /** Called in the turn of the event loop in which the sums of these keys have changed. */
  readonly onChanged: (keys: Iterable<string>) => void;
  readonly onGaps: (gaps: readonly UsageGapEntry[]) => void;
}

export class CounterExchange {
  readonly feed: CounterFeed;
  readonly #options: CounterExchangeOptions;
  readonly #counters: GatewayCounters;
  readonly #limits = new Map<string, number | null>();
  #timer: NodeJS.Timeout | undefined;
  #everythingAtMs = 0;
  #publishing: Promise<void> | undefined;
  #hasCaughtUp = false;

  constructor(options: CounterExchangeOptions) {
    this.#options = options;
    const { outbox, state, name, copy, topic, logger } = options;
    this.#counters = new GatewayCounters(
      {
        ledger: outbox.ledger,
        state,
        process: outbox.incarnation,
        name,
        live: () => this.live,
      },
      wallClockMs(),
    );
    this.feed = new CounterFeed({
      ...{ topic, copy, state, logger, process: outbox.incarnation },
      read: (record, nowMs) => this.#read(record, nowMs),
      // Publish all counters again, because the log may have lost earlier records.
      onRestart: () => this.#publishAllSoon(),
      onEnded: (keys) => this.#forget(keys),
    });
    outbox.setOnCounted((entries) => this.#onCounted(entries));
  }

  /** Starts to read and publish. Resolves, after a few seconds at most, to whether the topic was read up to its end. */
  async start(): Promise<boolean> {
    this.feed.start();
    this.#hasCaughtUp = await this.feed.caughtUp(catchUpTimeoutMs);
    this.#timer = setInterval(() => this.#tick(), publishEveryMs);
    this.#tick();
    return this.#hasCaughtUp;
  }

  /** Number of live gateways, including this one. */
  get live(): number {
    const nowMs = this.feed.logNow();
    const live = this.#options.state.replicas.filter(
      ({ id, ownMs }) => id !== rowsReplica && nowMs - ownMs < liveMs,
    );
    return live.length + 1;
  }

  /** Stores limits of the accounts whose rows come next. A counter near its limit is published sooner. */
  onLimits(limits: readonly AccountLimit[]): void {
    for (const [key, limit] of limits) this.#limits.set(key, limit);
  }

  /** Publishes the counters that are left, for at most a second, and stops. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await within(this.#publishRest(), drainTimeoutMs);
    await this.feed.stop();
  }

  async #publishRest(): Promise<void> {
    await this.#publishing;
    for (const record of this.#counters.rest(wallClockMs())) await this.feed.publish(record);
  }

  #onCounted(entries: readonly CounterEntry[]): void {
    const nowMs = wallClockMs();
    for (const [subject, period, tokens] of entries) {
      const key = counterKey(subject, period);
      this.#counters.grown(key, tokens, nowMs, this.#limits.get(key));
    }
    this.#limits.clear();
    this.#tick();
  }

  #read(record: CounterRecord, nowMs: number): number {
    const { outbox, logger, onChanged, onGaps } = this.#options;
    const isOwn = record.replica === outbox.ledger.replica;
    // Count waiting rows first, while this replica id is still valid, because a conflict replaces the id.
    if (isOwn) outbox.flush();
    const { changed, dropped, conflict } = this.#counters.read(record, nowMs);
    if (conflict !== undefined) {
      logger.error(
        { conflict, replica: outbox.ledger.replica },
        'the data folder of this gateway was copied or restored, or another gateway uses a copy of it, so its counters continue under a new replica id; never copy or restore the data folder of a gateway',
      );
      this.#publishAllSoon();
    }
    if (changed.length > 0) onChanged(changed);
    if (record.gaps !== undefined && record.replica === rowsReplica) onGaps(record.gaps);
    return dropped;
  }

  #tick(): void {
    if (this.#publishing !== undefined) return;
    const nowMs = wallClockMs();
    const isHour = nowMs >= this.#everythingAtMs || nowMs < this.#everythingAtMs - 2 * hourMs;
    const records = isHour ? this.#everything(nowMs) : this.#counters.due(nowMs);
    if (records.length === 0) return;
    this.#publishing = this.#publish(records, isHour).finally(() => {
      this.#publishing = undefined;
    });
  }

  #everything(nowMs: number): CounterRecord[] {
    // Choose the time at random, so that gateways do not all publish all their counters at once.
    this.#everythingAtMs = nowMs + hourMs * (0.9 + Math.random() * 0.1);
    return this.#counters.everything(this.feed.logNow());
  }

  async #publish(records: readonly CounterRecord[], isEverything: boolean): Promise<void> {
    for (const record of records) {
      if (await this.feed.publish(record)) continue;
      this.#counters.unpublished(record, wallClockMs());
      if (isEverything) this.#everythingAtMs = wallClockMs() + 1000;
    }
  }

  #publishAllSoon(): void {
    this.#everythingAtMs = 0;
  }

  #forget(keys: readonly string[]): void {
    this.#counters.forget(keys);
    for (const key of keys) this.#limits.delete(key);
  }
}
