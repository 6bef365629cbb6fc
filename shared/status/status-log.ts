/**
 * The status topic: one day is kept, because only the latest reports count. For the same reason a topic that was replaced
 * under its name is opened again, and the calls that noticed it reject with LogUnavailable.
 */
import { statusTopic } from '../../schemas/status.ts';
import {
  type ControlLog,
  type LogBatch,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
  type TailOptions,
} from '../log/core/control-log.ts';
import { openLog } from '../log/open-log.ts';

const keepSeconds = 24 * 3600;
const replacedText = 'the status topic was replaced, and the one in its place is read from its beginning';

/** Throws what opening a log throws. */
export async function openStatusLog(logUrl: string): Promise<ControlLog> {
  // A report lost with the machine is replaced by the next start's report, so no gateway waits for a flush.
  const options = { keepSeconds, allowTrimmed: true, durability: 'normal' } as const;
  const open = (mustExist: boolean) => openLog(logUrl, { topic: statusTopic }, { ...options, mustExist });
  return new StatusLog(await open(false), () => open(true));
}

class StatusLog implements ControlLog {
  readonly #reopen: () => Promise<ControlLog>;
  #log: ControlLog;
  /** The topic that was last read. */
  #tailed: ControlLog | undefined;
  #opening: Promise<void> | undefined;
  #closed = false;

  constructor(log: ControlLog, reopen: () => Promise<ControlLog>) {
    this.#log = log;
    this.#reopen = reopen;
  }

  append(value: Uint8Array, signature: Uint8Array | null = null): Promise<number> {
    return this.#withLog((log) => log.append(value, signature));
  }

  /** The end of the topic that is read, never of the one that replaced it. */
  end(): Promise<number> {
    return this.#withLog(async (log) => {
      const end = await log.end();
      if (this.#tailed === undefined || this.#tailed === log) return end;
      throw new LogUnavailable(replacedText);
    });
  }

  /** For one reader. Throws LogTruncated where the topic that it read was replaced, so that its offsets do not apply. */
  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    const log = this.#log;
    if (this.#tailed !== undefined && this.#tailed !== log && options.from > 0) {
      throw new LogTruncated(replacedText);
    }
    this.#tailed = log;
    try {
      yield* log.tail(options);
    } catch (error) {
      await this.#reopenReplaced(log, error);
      throw error instanceof LogReplaced ? new LogTruncated(error.message, { cause: error }) : error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opening;
    await this.#log.close();
  }

  async #withLog<Result>(call: (log: ControlLog) => Promise<Result>): Promise<Result> {
    const log = this.#log;
    try {
      return await call(log);
    } catch (error) {
      await this.#reopenReplaced(log, error);
      throw error instanceof LogReplaced ? new LogUnavailable(error.message, { cause: error }) : error;
    }
  }

  /** Opens the topic again where `error` is that it was replaced, once for all callers. */
  async #reopenReplaced(log: ControlLog, error: unknown): Promise<void> {
    if (!(error instanceof LogReplaced) || this.#closed) return;
    if (log === this.#log) this.#opening ??= this.#open(log);
    await this.#opening;
  }

  async #open(before: ControlLog): Promise<void> {
    try {
      this.#log = await this.#reopen();
      await before.close();
    } catch {
      // The new topic does not exist yet: the next call fails in the same way and retries.
    } finally {
      this.#opening = undefined;
    }
  }
}
