/**
 * The status topic: one day is kept, because only the present counts. For the same reason a topic that was replaced under
 * its name is simply opened anew, while whoever asked hears that the log cannot be used at this moment.
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
  // A report lost with the machine is retold by the process that starts next; no flush holds up a gateway.
  const options = { keepSeconds, allowTrimmed: true, durability: 'normal' } as const;
  const open = (mustExist: boolean) => openLog(logUrl, { topic: statusTopic }, { ...options, mustExist });
  return new StatusLog(await open(false), () => open(true));
}

class StatusLog implements ControlLog {
  readonly #reopen: () => Promise<ControlLog>;
  #log: ControlLog;
  /** The one that was last read. */
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

  /** An end that a reader may compare with how far it has read: never of another topic than the one it reads. */
  end(): Promise<number> {
    return this.#withLog(async (log) => {
      const end = await log.end();
      if (this.#tailed === undefined || this.#tailed === log) return end;
      throw new LogUnavailable(replacedText);
    });
  }

  /** For one reader. What it knows of offsets is of the topic that it read last: throws LogTruncated where another is here. */
  async *tail(options: TailOptions): AsyncGenerator<LogBatch> {
    const log = this.#log;
    if (this.#tailed !== undefined && this.#tailed !== log && options.from > 0) {
      throw new LogTruncated(replacedText);
    }
    this.#tailed = log;
    try {
      yield* log.tail(options);
    } catch (error) {
      await this.#renew(log, error);
      throw error instanceof LogReplaced ? new LogTruncated(error.message, { cause: error }) : error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opening;
    await this.#log.close();
  }

  async #withLog<Answer>(ask: (log: ControlLog) => Promise<Answer>): Promise<Answer> {
    const log = this.#log;
    try {
      return await ask(log);
    } catch (error) {
      await this.#renew(log, error);
      throw error instanceof LogReplaced ? new LogUnavailable(error.message, { cause: error }) : error;
    }
  }

  /** Opens the topic anew where `error` says that another stands there, once for all who were told so. */
  async #renew(log: ControlLog, error: unknown): Promise<void> {
    if (!(error instanceof LogReplaced) || this.#closed) return;
    if (log === this.#log) this.#opening ??= this.#open(log);
    await this.#opening;
  }

  async #open(before: ControlLog): Promise<void> {
    try {
      this.#log = await this.#reopen();
      await before.close();
    } catch {
      // Not there yet: the next question finds the same fault and tries again.
    } finally {
      this.#opening = undefined;
    }
  }
}
