/**
 * Moves completed requests from `usage.db` into the files of their days, once a minute, and removes the files of days that are not to
 * be kept.
 */
import { dayMs } from '../../schemas/durations.ts';
import { wallClockMs } from '../runtime/clock.ts';
import type { LineLogger } from '../runtime/logger.ts';
import { sleep } from '../runtime/retry.ts';
import { type ThreadTask, taskOnThread } from '../runtime/worker-thread.ts';
import type { KeptRows } from './kept-rows.ts';
import { type MovedPart, moveRows, partsMax, today } from './move-rows.ts';

const moveEveryMs = 60_000;
/** Between two parts, so that they take no more than half of the event loop. */
const partEveryMs = 10;

export interface RowMoverOptions {
  readonly rows: KeptRows;
  /** Of `usage.db`. */
  readonly path: string;
  readonly keepDays: number;
  readonly logger: LineLogger;
}

export class RowMover {
  readonly #options: RowMoverOptions;
  readonly #stop = new AbortController();
  #task: ThreadTask<MovedPart[]> | undefined;
  #running: Promise<void> | undefined;
  /** What a process wrote and did not note is removed before anything else is written. */
  #isFirst = true;

  constructor(options: RowMoverOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#task?.end();
    await this.#running;
  }

  /** Moves what there is, up to some ten thousand rows. Returns whether there are more. */
  async move(): Promise<boolean> {
    const { rows, path, keepDays } = this.#options;
    rows.removeBefore(today(wallClockMs() - keepDays * dayMs));
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
          'rows of usage could not be moved into the files of their days',
        );
      return false;
    }
  }
}
