/**
 * Publishes this process's status: at once when its position moved, and every two seconds.
 * One append is in flight at a time and a report always holds the present, so a slow log costs reports, never memory.
 * A record that was not taken is counted and logged; the next beat replaces it.
 */
import { randomUUID } from 'node:crypto';
import { type StatusReport, statusBytesMax } from '../../schemas/status.ts';
import { AppendUnknown, type ControlLog, LogReplaced, LogUnavailable } from '../log/core/control-log.ts';
import { RateLimitedLine } from '../runtime/rate-limited-line.ts';
import type { StatusMac } from './status-mac.ts';

const beatMs = 2000;
/** How long an acknowledged report vouches for the way to the brokers. */
const heardMs = 10_000;
const goodByeMs = 1000;

export type ReportBody = Omit<StatusReport, 'incarnation' | 'n'>;

export interface PublisherOptions {
  readonly log: ControlLog;
  readonly mac: StatusMac;
  readonly report: () => ReportBody;
  readonly logger: { error(fields: object, text: string): void };
}

export class StatusPublisher {
  readonly incarnation = randomUUID();
  /** Records that were not taken, by cause. */
  readonly refused: RateLimitedLine;
  readonly #options: PublisherOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #waiting = new Set<() => void>();
  #sending: Promise<void> | undefined;
  #again = false;
  #closed = false;
  #n = 0;
  #acknowledgedMs = Number.NEGATIVE_INFINITY;
  #lastError = '';

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.refused = new RateLimitedLine((causes) =>
      options.logger.error({ causes, reason: this.#lastError }, 'status records were not taken by the log'),
    );
    this.#timer = setInterval(() => this.publish(), beatMs);
    this.#timer.unref();
    this.publish();
  }

  /** Are this process's own writes acknowledged by the log's brokers now? */
  get isHeard(): boolean {
    return this.heardWithin(heardMs);
  }

  heardWithin(ms: number): boolean {
    return performance.now() - this.#acknowledgedMs < ms;
  }

  /** Resolves once a report was acknowledged, or at the deadline. */
  async acknowledged(timeoutMs: number): Promise<void> {
    if (Number.isFinite(this.#acknowledgedMs)) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, timeoutMs);
      this.#waiting.add(done);
    });
  }

  /** Reports now, or as soon as the report under way is through. */
  publish(): void {
    if (this.#closed) return;
    if (this.#sending !== undefined) {
      this.#again = true;
      return;
    }
    this.#sending = this.#send().finally(() => {
      this.#sending = undefined;
      if (!this.#again) return;
      this.#again = false;
      this.publish();
    });
  }

  /** Says that the process ends in good order; waits at most a second for the log. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#closed = true;
    const timer = new Promise((resolve) => setTimeout(resolve, goodByeMs).unref());
    await Promise.race([this.#send({ stopped: true }), timer]);
    this.refused.close();
  }

  async #send(more: Partial<ReportBody> = {}): Promise<void> {
    const { log, mac, report } = this.#options;
    const begunMs = performance.now();
    try {
      const value = encode({ ...report(), ...more, incarnation: this.incarnation, n: ++this.#n });
      await log.append(value, mac.of(value));
      this.#acknowledgedMs = begunMs;
      for (const done of [...this.#waiting]) done();
    } catch (error) {
      this.#lastError = error instanceof Error ? error.message : String(error);
      this.refused.add(causeOf(error));
    }
  }
}

/** A report that is too large in spite of its reporter's care goes without its nodes: a process must not seem dead. */
export function encode(report: StatusReport): Buffer {
  const value = Buffer.from(JSON.stringify(report));
  if (value.length <= statusBytesMax || report.nodes === undefined) return value;
  const { nodes, nodesOmitted = 0, ...rest } = report;
  return Buffer.from(JSON.stringify({ ...rest, nodesOmitted: nodesOmitted + Object.keys(nodes).length }));
}

function causeOf(error: unknown): string {
  if (error instanceof LogUnavailable) return 'unavailable';
  if (error instanceof AppendUnknown) return 'unknown';
  return error instanceof LogReplaced ? 'replaced' : 'fault';
}
