/**
 * Publishes this process's status: at once when its position moved, and every two seconds.
 * One append is in flight at a time and a report always tells the present, so a slow log costs reports, never memory.
 */
import type { StatusReport } from '../../schemas/status.ts';
import { type ControlLog, LogUnavailable } from '../log/control-log.ts';

const beatMs = 2000;
/** How long an acknowledged report vouches for the way to the brokers. */
const heardMs = 10_000;

export class StatusPublisher {
  readonly #log: ControlLog;
  readonly #report: () => StatusReport;
  readonly #timer: NodeJS.Timeout;
  #sending: Promise<void> | undefined;
  #again = false;
  #closed = false;
  #acknowledgedMs = Number.NEGATIVE_INFINITY;

  constructor(log: ControlLog, report: () => StatusReport) {
    this.#log = log;
    this.#report = report;
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

  /** Reports now, or as soon as the report under way is through. */
  publish(): void {
    if (this.#closed) return;
    if (this.#sending !== undefined) {
      this.#again = true;
      return;
    }
    this.#sending = this.#send(this.#report()).finally(() => {
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
    const last = this.#send({ ...this.#report(), stopped: true });
    await Promise.race([last, new Promise((resolve) => setTimeout(resolve, 1000).unref())]);
  }

  async #send(report: StatusReport): Promise<void> {
    const begunMs = performance.now();
    try {
      await this.#log.append(Buffer.from(JSON.stringify(report)));
      this.#acknowledgedMs = begunMs;
    } catch (error) {
      // The next beat tries again; a report that is lost is replaced by a newer one.
      if (!(error instanceof Error) || error instanceof LogUnavailable) return;
    }
  }
}
