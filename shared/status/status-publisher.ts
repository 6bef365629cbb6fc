/**
 * Publishes this process's status whenever its position changes, and every two seconds. Only one append is in flight, and
 * each report contains the full state. So a slow log makes reports rarer but never uses up memory. Refused records are
 * counted and logged.
 */
import { randomUUID } from 'node:crypto';
import { type StatusReport, statusBytesMax } from '../../schemas/records/status.ts';
import type { TrafficReport } from '../../schemas/records/traffic.ts';
import { AppendUnknown, type ControlLog, LogReplaced, LogUnavailable } from '../log/core/control-log.ts';
import type { LineLogger } from '../runtime/logger.ts';
import { RateLimitedLine } from '../runtime/rate-limited-line.ts';
import { within } from '../runtime/retry.ts';
import { Waiters } from '../runtime/waiters.ts';
import type { StatusMac } from './status-mac.ts';

const intervalMs = 2000;
/** Time in ms for which the log's brokers count as reachable after they acknowledged a report. */
const acknowledgedForMs = 10_000;
const goodbyeTimeoutMs = 1000;

export type ReportBody = Omit<StatusReport, 'incarnation' | 'n'>;

/** Collects traffic counts between reports. Each count must reach the log once. */
export interface TrafficSource {
  take(isLast: boolean): TrafficReport | undefined;
  settle(isOnLog: boolean): void;
}

export interface StatusPublisherOptions {
  readonly log: ControlLog;
  readonly mac: StatusMac;
  readonly logger: Pick<LineLogger, 'error'>;
}

/** Functions from which all reports take their content. */
export interface ReportSources {
  readonly report: () => ReportBody;
  readonly traffic?: TrafficSource;
}

export class StatusPublisher {
  readonly incarnation = randomUUID();
  /** Number of records that the log did not accept, by cause. */
  readonly refused: RateLimitedLine;
  readonly #options: StatusPublisherOptions;
  readonly #members: (() => Partial<ReportBody> | undefined)[] = [];
  #sources: ReportSources | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #waiters = new Waiters();
  #pending: Promise<void> | undefined;
  #again = false;
  #closed = false;
  #n = 0;
  #acknowledgedMs = Number.NEGATIVE_INFINITY;
  #lastError = '';

  constructor(options: StatusPublisherOptions) {
    this.#options = options;
    this.refused = new RateLimitedLine((causes) =>
      options.logger.error(
        { causes, reason: this.#lastError },
        'status records were not accepted by the log',
      ),
    );
  }

  /** Publishes the first report. Before that, nothing is published. */
  start(sources: ReportSources): void {
    this.#sources = sources;
    this.#timer = setInterval(() => this.publish(), intervalMs).unref();
    this.publish();
  }

  /** Adds members to all further reports, and publishes one immediately. */
  add(members: () => Partial<ReportBody> | undefined): void {
    this.#members.push(members);
    this.publish();
  }

  /** Whether the log's brokers are currently acknowledging this process's reports. */
  get isAcknowledged(): boolean {
    return this.acknowledgedWithin(acknowledgedForMs);
  }

  acknowledgedWithin(ms: number): boolean {
    return performance.now() - this.#acknowledgedMs < ms;
  }

  /** Resolves once a report has been acknowledged, or at the deadline. */
  async acknowledged(timeoutMs: number): Promise<void> {
    if (!Number.isFinite(this.#acknowledgedMs)) await this.#waiters.next(timeoutMs);
  }

  /** Publishes a report now or, if another is being appended, after that one. */
  publish(): void {
    const sources = this.#sources;
    if (this.#closed || sources === undefined) return;
    if (this.#pending !== undefined) {
      this.#again = true;
      return;
    }
    this.#pending = this.#send(sources).finally(() => {
      this.#pending = undefined;
      if (!this.#again) return;
      this.#again = false;
      this.publish();
    });
  }

  /** Publishes the `stopped` report. Waits for the log for at most a second. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    if (this.#sources) await within(this.#send(this.#sources, { stopped: true }), goodbyeTimeoutMs);
    this.refused.close();
  }

  async #send({ report, traffic: source }: ReportSources, more: Partial<ReportBody> = {}): Promise<void> {
    const { log, mac } = this.#options;
    const sentMs = performance.now();
    const traffic = source?.take(more.stopped === true);
    try {
      const members = this.#members.map((read) => read());
      const body: ReportBody = Object.assign(report(), ...members, more, traffic && { traffic });
      const value = encode({ ...body, incarnation: this.incarnation, n: ++this.#n });
      await log.append(value, mac.of(value));
      if (traffic) source?.settle(true);
      this.#acknowledgedMs = sentMs;
      this.#waiters.wake();
    } catch (error) {
      if (traffic) source?.settle(false);
      this.#lastError = error instanceof Error ? error.message : String(error);
      this.refused.add(failureCause(error));
    }
  }
}

/** Encodes a report. If it is too large, its nodes are omitted, because a process without reports would seem dead. */
export function encode(report: StatusReport): Buffer {
  const value = Buffer.from(JSON.stringify(report));
  if (value.length <= statusBytesMax || report.nodes === undefined) return value;
  const { nodes, nodesOmitted = 0, ...rest } = report;
  return Buffer.from(JSON.stringify({ ...rest, nodesOmitted: nodesOmitted + Object.keys(nodes).length }));
}

function failureCause(error: unknown): string {
  if (error instanceof LogUnavailable) return 'unavailable';
  if (error instanceof AppendUnknown) return 'unknown';
  return error instanceof LogReplaced ? 'replaced' : 'fault';
}
