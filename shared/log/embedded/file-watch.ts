/**
 * Triggers the checks of a log's file: at once when the folder reports a change, a few times shortly after (the report
 * arrives before the commit is on the disk), and at a slow interval in case a report was lost.
 * A report is only a hint; only latency depends on it.
 */
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Pauses between the checks after a report, ms. Together they last longer than a slow flush. */
const burstMs: readonly number[] = [0, 1, 1, 1, 1, 2, 2, 3, 5, 8, 13, 21];

export interface FileWatchOptions {
  readonly path: string;
  /** The slow interval. */
  readonly pollMs: number;
  /** Does anybody wait for a change? Where nobody does, a report starts no checks. */
  readonly isAwaited: () => boolean;
  /** Checks the file. Must not throw. */
  readonly look: () => void;
}

export class FileWatch {
  readonly #options: FileWatchOptions;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looks = burstMs.length;
  #started = false;

  constructor(options: FileWatchOptions) {
    this.#options = options;
  }

  /** Starts watching. Idempotent. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#watch();
    this.#schedule();
  }

  close(): void {
    this.#started = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  /** Where the system has no watches left, only the interval is used. */
  #watch(): void {
    const name = basename(this.#options.path);
    try {
      this.#watcher = watch(dirname(this.#options.path), { persistent: false }, (_, file) => {
        if (file === null || file.startsWith(name)) this.#report();
      });
      this.#watcher.on('error', () => this.#watcher?.close());
    } catch {
      this.#watcher = undefined;
    }
  }

  #report(): void {
    if (this.#timer === undefined || !this.#options.isAwaited()) return;
    clearTimeout(this.#timer);
    this.#looks = 0;
    this.#schedule();
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#looks++;
      this.#schedule();
      this.#options.look();
    }, burstMs[this.#looks] ?? this.#options.pollMs);
  }
}
