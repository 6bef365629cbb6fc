/** A log that is opened on first use and reopened if replaced. Readers get `LogReplaced`, and then read the new log. */
import {
  type LogBatch,
  LogReplaced,
  LogUnavailable,
  type TailOptions,
  type TimedLog,
} from './core/control-log.ts';

/** Opens the log. `mustExist` is true when reopening, so that a log that was moved away is not created again. */
export type OpenTopic = (mustExist: boolean) => Promise<TimedLog>;

export class ReopenedLog implements TimedLog {
  readonly #open: OpenTopic;
  #log: Promise<TimedLog> | undefined;
  #reopening: Promise<void> | undefined;
  #isClosed = false;
  #replacements = 0;

  constructor(open: OpenTopic) {
    this.#open = open;
  }

  /** Number of times that this log was reopened because it had been replaced. */
  get replacements(): number {
    return this.#replacements;
  }

  append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    return this.#call((log) => log.append(value, signature));
  }

  end(): Promise<number> {
    return this.#call((log) => log.end());
  }

  offsetAt(atMs: number): Promise<number> {
    return this.#call((log) => log.offsetAt(atMs));
  }

  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    const opened = this.opened();
    try {
      yield* (await opened).tail(options);
    } catch (error) {
      await this.#reopenReplaced(opened, error);
      throw error;
    }
    if (!this.#isClosed && this.#log !== opened)
      throw new LogReplaced('the log was replaced, and the one in its place is read from its beginning');
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reopening;
    await (await this.#log?.catch(() => undefined))?.close();
  }

  /** Returns the open log. Rejects if opening fails, but the next call tries again. */
  opened(): Promise<TimedLog> {
    if (this.#isClosed) return Promise.reject(new LogUnavailable('the log is closed'));
    this.#log ??= this.#openFirst();
    return this.#log;
  }

  async #openFirst(): Promise<TimedLog> {
    try {
      return await this.#open(false);
    } catch (error) {
      this.#log = undefined;
      throw error;
    }
  }

  async #call<Result>(call: (log: TimedLog) => Promise<Result>): Promise<Result> {
    const opened = this.opened();
    try {
      return await call(await opened);
    } catch (error) {
      await this.#reopenReplaced(opened, error);
      throw error instanceof LogReplaced ? new LogUnavailable(error.message, { cause: error }) : error;
    }
  }

  /** Reopens a replaced log once for all callers. If reopening fails, a later call tries again. */
  async #reopenReplaced(opened: Promise<TimedLog>, error: unknown): Promise<void> {
    if (!(error instanceof LogReplaced) || this.#isClosed) return;
    if (this.#log === opened) this.#reopening ??= this.#reopen(opened);
    await this.#reopening;
  }

  async #reopen(before: Promise<TimedLog>): Promise<void> {
    try {
      const log = await this.#open(true);
      this.#log = Promise.resolve(log);
      this.#replacements++;
      await (await before).close();
    } catch {
      // Ignore the error, because the caller already gets the error that led to reopening.
    } finally {
      this.#reopening = undefined;
    }
  }
}
