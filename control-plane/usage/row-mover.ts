/**
 * Moves completed requests from `usage.db` into day files once a minute, and removes old day files. A file is removed only if
 * both this machine's clock and the newest rows show that it is old, so that a jump of either clock removes nothing (see
 * `RemovalTime`).
 */
import { dayMs } from '../../schemas/durations.ts';
import { monotonicMs, RemovalTime, wallClockMs } from '../../shared/runtime/clock.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { type ThreadTask, taskOnThread } from '../../shared/runtime/worker-thread.ts';
import type { KeptRows } from './kept-rows.ts';
import { dayOfMs, type MovedPart, moveRows, partsMax } from './move-rows.ts';

const moveEveryMs = 60_000;
/** Pause in ms between two parts, so that moving rows takes no more than half of the event loop's time. */
const partEveryMs = 10;

export interface RowMoverOptions {
  readonly rows: KeptRows;
  /** Path of `usage.db`. */
  readonly path: string;
  readonly keepDays: number;
  readonly logger: LineLogger<'info' | 'warn' | 'error' | 'fatal'>;
  /** Returns the milliseconds since the machine started. */
  readonly monotonicMs?: () => number;
}

export class RowMover {
  readonly #options: RowMoverOptions;
  readonly #stop = new AbortController();
  #task: ThreadTask<MovedPart[]> | undefined;
  #running: Promise<void> | undefined;
  /** Whether day files may contain rows whose move was not recorded, which must be removed first. */
  #isFirst = true;
  readonly #monotonicMs: () => number;
  readonly #removal: RemovalTime;
  /** Newest day with rows, and the monotonic time in ms when this process first saw it. */
  #newest = { day: '', sinceMs: 0 };

  constructor(options: RowMoverOptions) {
    this.#options = options;
    this.#monotonicMs = options.monotonicMs ?? monotonicMs;
    this.#removal = new RemovalTime(this.#monotonicMs);
  }

  start(): void {
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#task?.end();
    await this.#running;
  }

  /** Moves up to 40 000 rows. Returns whether more may remain. */
  async move(): Promise<boolean> {
    const { rows, path } = this.#options;
    this.#removeOld();
    const data = { path, isFirst: this.#isFirst };
    this.#isFirst = true;
    const entry = new URL('./move-rows-thread.js', import.meta.url);
    this.#task = taskOnThread({ entry, data, isRef: false, task: () => moveRows(data) });
    const parts = await this.#task.result;
    for (const part of parts) {
      if (this.#stop.signal.aborted) return false;
      rows.noteMoved(part);
      await sleep(partEveryMs, this.#stop.signal);
    }
    while (!this.#stop.signal.aborted && rows.removeMoved()) await sleep(partEveryMs, this.#stop.signal);
    this.#isFirst = false;
    return parts.length === partsMax;
  }

  #removeOld(): void {
    const { rows, keepDays, logger } = this.#options;
    const day = rows.newestDay;
    if (day === undefined) return;
    const nowMs = this.#monotonicMs();
    if (day !== this.#newest.day) this.#newest = { day, sinceMs: nowMs };
    // Log time advances even while no rows arrive, so add the time since the newest day was first seen.
    const logMs = Date.parse(day) + nowMs - this.#newest.sinceMs;
    const untilMs = this.#removal.limit(Math.min(logMs, wallClockMs())) - keepDays * dayMs;
    for (const { day: removed, rows: count } of rows.removeBefore(dayOfMs(untilMs)))
      logger.info({ day: removed, rows: count }, 'a day of usage rows was removed');
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    await sleep(moveEveryMs, signal);
    while (!signal.aborted) {
      const isMore = await this.#moveOrSay();
      if (!isMore) await sleep(moveEveryMs, signal);
    }
  }

  async #moveOrSay(): Promise<boolean> {
    try {
      return await this.move();
    } catch (error) {
      if (!this.#stop.signal.aborted)
        this.#options.logger.warn(
          { err: error },
          'usage rows could not be moved into the files of their days',
        );
      return false;
    }
  }
}
