/**
 * Exchanges claims with the other gateways over the gauges topic, so that limits apply to the whole fleet. The folder
 * `data-plane/limits` promises that a limit is never exceeded by more than docs/limits.md states, even after crashes and with
 * lost, duplicated or late records. This file adds the log, the clock and the timers to the rules in shared/limits. A request
 * only reads memory, and waits at most until its claim has been answered.
 */
import { randomUUID } from 'node:crypto';
import type { Registry } from 'prom-client';
import { decodeGauges, encodeGauges, type GaugeRecord } from '../../schemas/records/gauges.ts';
import { gaugesTopic } from '../../schemas/records/limits.ts';
import {
  decodePlacements,
  encodePlacements,
  type PlacementReport,
} from '../../schemas/records/placements.ts';
import { clockOffMs } from '../../shared/limits/claims-fold.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import { type LimitBatch, type LimitTopic, openLimitTopic } from '../../shared/log/limit-topic.ts';
import { monotonicMs, ReadTime, wallClockMs } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { sleep, within } from '../../shared/runtime/retry.ts';
import { Claimant } from './claimant.ts';
import { ExchangeFile } from './exchange-file.ts';
import { LogClock } from './log-clock.ts';

const tickMs = 200;
/** Delay in ms before an urgent record is sent, so that one record serves several waiting requests. */
const urgentMs = 10;
/** Pause in ms between two reads of the topic while no request waits. Reading several records at once costs less. */
const restMs = 40;
/** Pause in ms between two reads of the topic while this process uses no limit and other gateways are live. */
const idleRestMs = 200;
/** Age in ms of the oldest records read at startup: a minute plus more than the usual difference between clocks. */
const readBackMs = 70_000;
/** Maximum number of claim records, and of reports, that the log has yet to acknowledge. No more are sent, to save memory. */
const appendingMax = 4;
/** Pause in ms after a report, per node in it. Reading 50 gateways' reports on a thousand nodes then takes 1 % of a core. */
const reportPauseMs = 1;
const goodbyeTimeoutMs = 1000;
/** Interval in ms between two sweeps. Each sweep checks some of the claims and drops unused ones. */
const sweepEveryMs = 1_000;

/** Creates this gateway's placement reports and receives the other gateways' reports. Reports share the gauges topic. */
export interface PlacementReporter {
  report(): Omit<PlacementReport, 'process'>;
  receive(report: PlacementReport): void;
}

export interface LimitExchangeOptions {
  readonly topic: LimitTopic;
  readonly dataDir: string;
  readonly name: string;
  readonly registry: Registry;
  readonly logger: Pick<Logger, 'warn'>;
  readonly placements?: PlacementReporter;
}

export class LimitExchange {
  readonly #options: LimitExchangeOptions;
  readonly #file: ExchangeFile;
  readonly #claimant: Claimant;
  readonly #closing = new AbortController();
  readonly #ignored: RateLimitedLine;
  #tick: NodeJS.Timeout | undefined;
  #urgent: NodeJS.Timeout | undefined;
  #settling: NodeJS.Immediate | undefined;
  #endRest: () => void = () => undefined;
  #appending = { records: 0, reports: 0 };
  #waits = 0;
  #sweptMs = 0;
  #reportedIdle = true;
  #nextReportMs = 0;
  readonly #clock = new LogClock();
  readonly #time = new ReadTime();
  /** Time by which the log's clock and the period clock are ahead of this process's clock, cached for one millisecond. */
  #ahead = { atMs: Number.NaN, ms: 0, periodsMs: 0 };

  constructor(options: LimitExchangeOptions) {
    this.#options = options;
    this.#file = new ExchangeFile(options.dataDir);
    this.#claimant = new Claimant({
      name: options.name,
      mint: randomUUID,
      live: this.#file.kept?.live ?? 1,
      predecessor: this.#file.kept?.process,
    });
    this.#ignored = new RateLimitedLine((causes) =>
      options.logger.warn({ causes }, 'records of the gauges topic were ignored'),
    );
    this.#measure(options.registry);
  }

  start(): void {
    const follower = this.#options.topic.follower({
      from: { atMs: wallClockMs() - readBackMs },
      onBatch: (batch) => this.#onBatch(batch),
      onFault: (error) => {
        throw error;
      },
      rest: () => this.#rest(),
      onRestart: () => this.#claimant.restart(),
    });
    follower.start();
    this.#tick = setInterval(() => {
      this.#claimant.expire(performance.now());
      this.#publish(false);
      this.#reportPlacements();
    }, tickMs).unref();
    this.#publish(false);
  }

  /** Resolves when the claims in the log can decide requests, or after `timeoutMs`. */
  async ready(timeoutMs: number): Promise<void> {
    const untilMs = performance.now() + timeoutMs;
    while (!this.#claimant.isReady(performance.now()) && performance.now() < untilMs) await sleep(10);
  }

  /** Number of live gateways, including this one, when the log was last read. */
  get live(): number {
    return this.#claimant.live;
  }

  /** Amount of the limit that this gateway must count as used: its own use, plus what other gateways hold. */
  taken(limit: Limit, weight: number): number {
    const nowMs = performance.now();
    const free = this.#claimant.room(limit, nowMs) - this.#claimant.used(limit);
    if (free < weight && this.#claimant.admits(limit, weight, nowMs)) return limit.limit - weight;
    return limit.limit - Math.max(0, free);
  }

  /** Use of the limit by all gateways, and the amount that other gateways use or reserve, as far as the log has been read. */
  known(limit: Limit): { readonly used: number; readonly held: number } {
    const { fold, process } = this.#claimant;
    const used = this.#claimant.used(limit) + fold.usedByOthers(process, limit);
    return { used, held: limit.limit - fold.left(process, limit) };
  }

  add(limit: Limit, weight: number): void {
    this.#claimant.add(limit, weight, performance.now());
    this.#planUrgent();
  }

  remove(limit: Limit, weight: number): void {
    this.#claimant.remove(limit, weight);
    this.#planSettle();
    this.#planUrgent();
  }

  /**
   * Waits for room in the limit until `untilMs` (monotonic). If the log has not answered by then, waits until this gateway
   * counts as cut off. Resolves to true if the request should be decided again. Returns undefined if waiting cannot help.
   */
  waitForRoom(
    limit: Limit,
    weight: number,
    untilMs: number,
    signal: AbortSignal,
  ): Promise<boolean> | undefined {
    const nowMs = performance.now();
    if (signal.aborted || untilMs <= nowMs || this.#tick === undefined) return undefined;
    let end: (again: boolean) => void = () => undefined;
    const waiter = this.#claimant.wait(limit, weight, untilMs, nowMs, (again) => end(again));
    if (waiter === undefined) return undefined;
    this.#waits++;
    this.#endRest();
    this.#planUrgent();
    return new Promise((resolve) => {
      const abort = (): void => {
        this.#claimant.cancel(waiter);
        end(false);
      };
      end = (again) => {
        signal.removeEventListener('abort', abort);
        resolve(again);
      };
      signal.addEventListener('abort', abort, { once: true });
    });
  }

  /** Announces that this process is ending, and waits at most one second for the log to store the announcement. */
  async close(): Promise<void> {
    clearInterval(this.#tick);
    this.#tick = undefined;
    clearTimeout(this.#urgent);
    clearImmediate(this.#settling);
    // Release all waiting requests now, because the timer that does so otherwise has stopped.
    this.#claimant.expire(Number.POSITIVE_INFINITY);
    await within(this.#append(this.#encode(this.#claimant.goodbye(performance.now()))), goodbyeTimeoutMs);
    this.#closing.abort();
    this.#endRest();
    await this.#options.topic.close();
    await this.#file.close();
    this.#ignored.close();
  }

  #onBatch({ records, rejected }: LimitBatch): void {
    const nowMs = performance.now();
    if (rejected > 0) this.#ignored.add('not authentic', rejected);
    for (const { offset, value, atMs } of records) {
      const record = decodeGauges(value);
      if (record === undefined) {
        this.#onPlacements(value, nowMs);
        continue;
      }
      const isNew = this.#claimant.onRecord(record, offset, nowMs, atMs);
      if (isNew && record.process === this.#claimant.process)
        this.#clock.readBack(record.process, record.n, atMs);
      if (atMs !== undefined) this.#time.read(atMs, atMs - (record.leap ?? 0));
    }
    this.#ahead.atMs = Number.NaN;
    this.#file.keep({ process: this.#claimant.process, live: this.#claimant.live });
    this.#planSettle();
    this.#planUrgent();
  }

  #onPlacements(value: Uint8Array, nowMs: number): void {
    const report = decodePlacements(value);
    if (report === undefined) this.#ignored.add('malformed');
    if (report === undefined || report.process === this.#claimant.process) return;
    // Unless this process has just read back a record of its own, it may be reading old reports with outdated loads.
    const isPast = this.#claimant.isCutOff(nowMs);
    this.#options.placements?.receive(isPast ? { ...report, loads: [] } : report);
  }

  /** Lead in ms of the log's clock over this process's clock. 0 if they agree well enough to assign requests to minutes. */
  get clockAheadMs(): number {
    return this.#aheadNow().ms;
  }

  /** Lead in ms of the clock that counts periods over this process's clock. */
  get periodsAheadMs(): number {
    return this.#aheadNow().periodsMs;
  }

  /** Lead in ms of the log's clock over the clock that counts periods. 0 unless a log server's clock is wrong. */
  get leapMs(): number {
    const leapMs = this.clockAheadMs - this.periodsAheadMs;
    return Math.abs(leapMs) > clockOffMs ? leapMs : 0;
  }

  #aheadNow(): { readonly ms: number; readonly periodsMs: number } {
    const ownMs = wallClockMs();
    // Cached, because a request needs these values several times and reading the monotonic clock is costly.
    if (ownMs !== this.#ahead.atMs) {
      const ms = this.#clock.aheadMs(monotonicMs(), ownMs);
      this.#ahead = { atMs: ownMs, ms, periodsMs: this.#time.now() - ownMs };
    }
    return this.#ahead;
  }

  #wallMs(): number {
    return this.#clock.wallMs(monotonicMs(), wallClockMs());
  }

  #rest(): Promise<void> | undefined {
    if (this.#claimant.isAwaited || this.#closing.signal.aborted) return undefined;
    return new Promise((resolve) => {
      const { isIdle, isAlone } = this.#claimant;
      const timer = setTimeout(resolve, isIdle && !isAlone ? idleRestMs : restMs);
      this.#endRest = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Schedules `settle` for the next turn of the event loop, by when all requests released earlier have been decided. */
  #planSettle(): void {
    if (this.#settling !== undefined || !this.#claimant.mayRelease) return;
    this.#settling = setImmediate(() => {
      this.#settling = undefined;
      this.#claimant.settle(performance.now());
    });
  }

  #planUrgent(): void {
    if (this.#urgent !== undefined || !this.#claimant.isUrgent || this.#closing.signal.aborted) return;
    this.#urgent = setTimeout(() => {
      this.#urgent = undefined;
      this.#publish(true);
    }, urgentMs);
  }

  #publish(urgent: boolean): void {
    if (this.#appending.records >= appendingMax) return;
    const nowMs = performance.now();
    for (const record of this.#claimant.records(nowMs, this.#wallMs(), urgent)) {
      this.#clock.sent(record.process, record.n, wallClockMs());
      void this.#append(this.#encode(record));
    }
    if (nowMs - this.#sweptMs < sweepEveryMs) return;
    this.#sweptMs = nowMs;
    this.#claimant.fold.sweep(nowMs, this.#wallMs());
  }

  /** Publishes a placement report when one is due. An idle gateway reports once that it is idle and then stops. */
  #reportPlacements(): void {
    const nowMs = performance.now();
    if (nowMs < this.#nextReportMs) return;
    // Call `report` even if the log does not accept records, because it also drops the loads of silent gateways.
    const report = this.#options.placements?.report();
    if (report === undefined || this.#appending.reports >= appendingMax) return;
    this.#nextReportMs = nowMs + reportPauseMs * report.loads.length;
    const isIdle = report.loads.length === 0 && report.placements.length === 0;
    if (!isIdle || !this.#reportedIdle)
      void this.#append(encodePlacements({ process: this.#claimant.process, ...report }), 'reports');
    this.#reportedIdle = isIdle;
  }

  #encode(record: GaugeRecord): Buffer {
    const { leapMs } = this;
    return encodeGauges(leapMs === 0 ? record : { ...record, leap: leapMs });
  }

  async #append(value: Uint8Array, kind: 'records' | 'reports' = 'records'): Promise<void> {
    this.#appending[kind]++;
    try {
      await this.#options.topic.append(value);
    } catch {
      // Ignore the error. The topic itself reports that the log is unreachable, and the next record repeats this one.
    } finally {
      this.#appending[kind]--;
    }
  }

  #measure(registry: Registry): void {
    const metrics = new ObservedMetrics(registry);
    metrics.gauge(
      'headgate_limit_clock_ahead_seconds',
      'how far the clock of the log is ahead of this gateway, if they differ by more than 30 s',
      () => this.clockAheadMs / 1000,
    );
    metrics.gauge(
      'headgate_limit_feed_age_seconds',
      'time since this gateway last read one of its own records on the gauges topic',
      () => Math.min(this.#claimant.feedAgeMs(performance.now()) / 1000, 1e9),
    );
    metrics.counter(
      'headgate_limit_waits_total',
      'requests that waited until the log granted room in a fleet limit',
      () => this.#waits,
    );
    metrics.counters(
      'headgate_limit_records_ignored_total',
      'ignored records of the gauges topic, by cause',
      'cause',
      () => this.#ignored.totals,
    );
  }
}

export interface OpenExchangeOptions extends Omit<LimitExchangeOptions, 'topic'> {
  readonly logUrl: string;
  readonly gatewayToken: string;
}

/** Maximum time in ms that startup waits for the log. A gateway must be able to start without the log. */
const readyTimeoutMs = 5000;

/** Opens the exchange over the log at `logUrl`, and waits at most five seconds until claims can decide requests. */
export async function openLimitExchange({
  logUrl,
  gatewayToken,
  ...options
}: OpenExchangeOptions): Promise<LimitExchange> {
  const topic = openLimitTopic(logUrl, {
    topic: gaugesTopic,
    tokens: [gatewayToken],
    onReachabilityChange: (reachable, error) =>
      options.logger.warn({ reachable, reason: error?.message }, 'reachability of the fleet limits'),
  });
  const exchange = new LimitExchange({ ...options, topic });
  exchange.start();
  await exchange.ready(readyTimeoutMs);
  return exchange;
}
