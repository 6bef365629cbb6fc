/** Reads the current use of fleet-wide limits: requests in the current minute and weight in flight. Never publishes. */
import { decodeGauges, inFlightWindow } from '../../schemas/records/gauges.ts';
import { gaugesTopic } from '../../schemas/records/limits.ts';
import { ClaimsFold } from '../../shared/limits/claims-fold.ts';
import type { Follower } from '../../shared/log/core/follower.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import { type LimitBatch, type LimitTopic, openLimitTopic } from '../../shared/log/limit-topic.ts';
import { ReadTime, wallClockMs } from '../../shared/runtime/clock.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { countedTokens, type FleetSettings } from './open-fleet.ts';

/** Age in ms of the oldest records to read at the start: one minute, plus a margin for clock differences. */
const readBackMs = 70_000;
const sweepEveryMs = 1_000;
/** Pause in ms between two reads of the topic, because reading in batches is cheaper. */
const restMs = 100;
/** Silence in ms after which a gateway's weight in flight no longer counts. Live gateways publish at least every second. */
const liveMs = 12_000;

export interface GaugeUse {
  readonly name: string;
  readonly used: number;
}

export interface FleetGaugesOptions {
  readonly topic: LimitTopic;
  readonly logger: Pick<LineLogger, 'fatal'>;
  /** Monotonic clock in ms. */
  readonly clock?: () => number;
}

export class FleetGauges {
  readonly #options: FleetGaugesOptions;
  readonly #follower: Follower;
  #fold = new ClaimsFold();
  #timer: NodeJS.Timeout | undefined;
  readonly #time = new ReadTime();

  constructor(options: FleetGaugesOptions) {
    const { topic, logger } = options;
    this.#options = options;
    this.#follower = topic.follower({
      from: { atMs: wallClockMs() - readBackMs },
      onBatch: (batch) => this.#onBatch(batch),
      onFault: (error) => logger.fatal({ err: error }, 'limits of the fleet are no longer read'),
      rest: (signal) => sleep(restMs, signal),
      onRestart: () => {
        this.#fold = new ClaimsFold();
      },
    });
  }

  start(): void {
    this.#follower.start();
    this.#timer = setInterval(() => this.#fold.sweep(this.#now(), this.logNow()), sweepEveryMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#options.topic.close();
  }

  get refused(): RefusedRecords | undefined {
    return this.#options.topic.refused;
  }

  /** Returns the current log time, which determines the minute or period in which gateways count a request. */
  logNow(): number {
    return this.#time.now();
  }

  /**
   * Returns how much of the subject's limit each gateway uses, or undefined while the topic cannot be read. `window` is the
   * start of a minute or `inFlightWindow`.
   */
  uses(subject: string, window: number): GaugeUse[] | undefined {
    if (!this.#options.topic.reachable) return undefined;
    const cells = this.#fold.row({ subject, window })?.cells;
    // Most subjects are idle, so return before the ages of the gateways' records are computed.
    if (cells === undefined) return [];
    const ages = this.#ages();
    const uses: GaugeUse[] = [];
    for (const [process, { used }] of cells) {
      const isLive = (ages.get(process)?.ageMs ?? liveMs) < liveMs;
      const name = this.#fold.findName(process);
      if (name !== undefined && used > 0 && (isLive || window !== inFlightWindow)) uses.push({ name, used });
    }
    return uses;
  }

  /** Returns the live gateways, with the time in ms since each last published. */
  gateways(): Map<string, number> {
    const gateways = new Map<string, number>();
    for (const { name, ageMs } of this.#ages().values())
      if (ageMs < liveMs) gateways.set(name, Math.min(ageMs, gateways.get(name) ?? ageMs));
    return gateways;
  }

  #ages(): Map<string, { readonly name: string; readonly ageMs: number }> {
    const nowMs = this.#now();
    return new Map(
      [...this.#fold.others('')].map(({ process, name, foldedMs }) => [
        process,
        { name, ageMs: nowMs - foldedMs },
      ]),
    );
  }

  #onBatch({ records }: LimitBatch): void {
    const nowMs = this.#now();
    for (const { offset, value, atMs } of records) {
      const record = decodeGauges(value);
      if (record === undefined) continue;
      this.#fold.apply(record, offset, nowMs, atMs);
      if (atMs !== undefined) this.#time.read(atMs, atMs - (record.leap ?? 0));
    }
  }

  #now(): number {
    return (this.#options.clock ?? performance.now.bind(performance))();
  }
}

export function openFleetGauges(settings: FleetSettings): FleetGauges {
  const { logUrl, logger } = settings;
  const topic = openLimitTopic(logUrl, {
    topic: gaugesTopic,
    tokens: countedTokens(settings),
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the fleet limits'),
  });
  return new FleetGauges({ topic, logger });
}
