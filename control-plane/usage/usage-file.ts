/** Known damage in `usage.db`. It is found by a check soon after the start, by daily checks, and by readers of the rows. */
import { dayMs } from '../../schemas/durations.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { walBytes, walBytesMax } from '../../shared/runtime/sqlite.ts';
import { type ThreadTask, taskOnThread } from '../../shared/runtime/worker-thread.ts';
import {
  checkUsage,
  type UsageFault,
  unreadableDayText,
  unreadableText,
  usageFaultsMax,
} from './check-usage.ts';

/** Delay in ms before the first check, so that it does not slow the start. */
const firstCheckMs = 5_000;
const checkIntervalMs = dayMs;
/** Pause in ms before a failed check is repeated. */
const retryMs = 10 * 60_000;
/** Interval in ms at which a running check reads the size of the write-ahead log. If it is too large, the check stops. */
const watchMs = 1000;
const putOffMs = 60_000;
/** Number of times that a check may be postponed, six hours in all. Then it runs even if the write-ahead log grows. */
const putOffsMax = 360;

export interface UsageFileState {
  /** Time in ms since the last complete check. Absent before the first one. */
  readonly checkedMsAgo?: number;
  /** Up to 20 faults from the last check, and up to 20 more that readers have found. */
  readonly faults: readonly UsageFault[];
}

export class UsageFile {
  readonly #path: string;
  readonly #logger: LineLogger;
  readonly #line: RateLimitedLine;
  /** Unreadable rows that readers have found, by object name. */
  readonly #met = new Map<string, UsageFault>();
  #found: readonly UsageFault[] = [];
  #checkedMs: number | undefined;
  #putOffs = 0;
  #timer: NodeJS.Timeout | undefined;
  #running: ThreadTask<readonly UsageFault[]> | undefined;
  #isClosed = false;

  constructor(path: string, logger: LineLogger) {
    this.#path = path;
    this.#logger = logger;
    this.#line = new RateLimitedLine((rows) =>
      logger.error(
        { rows, named: [...this.#met.keys()] },
        'rows of usage.db cannot be read and are left out: see docs/recover.md',
      ),
    );
  }

  get state(): UsageFileState {
    const met = [...this.#met.values()].filter(({ object }) =>
      this.#found.every((fault) => fault.object !== object),
    );
    const faults = [...this.#found, ...met];
    return this.#checkedMs === undefined
      ? { faults }
      : { checkedMsAgo: performance.now() - this.#checkedMs, faults };
  }

  /** Records that a reader skipped an unreadable row. */
  noteUnreadable(table: 'request' | 'parked' | 'day', key: string): void {
    const object = `${table} ${key}`;
    const text = table === 'day' ? unreadableDayText : unreadableText;
    if (this.#met.size < usageFaultsMax) this.#met.set(object, { object, text });
    this.#line.add(table);
  }

  /** Starts the checks. The first one runs after five seconds, further ones daily. */
  start(): void {
    this.#checkIn(firstCheckMs);
  }

  /** Ends a running check. Waits for its current SQL statement, which takes up to about one second per 400 MB. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#line.close();
    await this.#running?.end();
  }

  #checkIn(ms: number): void {
    this.#timer = setTimeout(() => void this.#check(), ms).unref();
  }

  async #check(): Promise<void> {
    const isPutOff = (): boolean => this.#putOffs < putOffsMax && walBytes(this.#path) > walBytesMax;
    const pauseMs = isPutOff() ? putOffMs : await this.#checkUnless(isPutOff);
    this.#putOffs = pauseMs === putOffMs ? this.#putOffs + 1 : 0;
    if (!this.#isClosed) this.#checkIn(pauseMs);
  }

  /** Runs a check unless it is postponed. Returns the time in ms until the next one. */
  async #checkUnless(isPutOff: () => boolean): Promise<number> {
    let wasPutOff = false;
    let watch: NodeJS.Timeout | undefined;
    try {
      const running = taskOnThread({
        entry: new URL('./usage-check-thread.js', import.meta.url),
        data: this.#path,
        isRef: false,
        task: () => checkUsage(this.#path),
      });
      this.#running = running;
      watch = setInterval(() => {
        if (wasPutOff || !isPutOff()) return;
        wasPutOff = true;
        void running.end();
      }, watchMs).unref();
      this.#found = await running.result;
      this.#checkedMs = performance.now();
      if (this.#found.length > 0)
        this.#logger.error({ faults: this.#found }, 'usage.db is damaged: see docs/recover.md');
      return checkIntervalMs;
    } catch (error) {
      if (wasPutOff) return putOffMs;
      if (!this.#isClosed) this.#logger.warn({ err: error }, 'usage.db could not be checked; retrying');
      return this.#checkedMs === undefined ? retryMs : checkIntervalMs;
    } finally {
      clearInterval(watch);
    }
  }
}
