/**
 * Decides when to check a log's file for changes. It checks when the system reports a write to the write-ahead log, and again
 * a few times shortly afterwards, because the report may precede the commit. It also checks at a slow interval, so a missing
 * report only costs latency. While no reader is waiting, the file is not watched, because each report costs as much as
 * reading a record.
 */
import { type FSWatcher, watch } from 'node:fs';

/** Pauses in ms between the checks after a report. Together they last longer than a slow flush. */
const burstMs: readonly number[] = [0, 1, 1, 1, 1, 2, 2, 3, 5, 8, 13, 21];
/** Number of reported writes without a waiting reader after which watching stops. It starts again when a reader waits. */
const unwantedMax = 4;

export interface FileWatchOptions {
  readonly path: string;
  /** Interval in ms between checks when nothing is reported. */
  readonly pollMs: number;
  /** Whether a reader is waiting for a change. */
  readonly isAwaited: () => boolean;
  /** Checks the file for changes. Must not throw. */
  readonly look: () => void;
}

export class FileWatch {
  readonly #options: FileWatchOptions;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looks = burstMs.length;
  #unwanted = 0;
  #closed = false;

  constructor(options: FileWatchOptions) {
    this.#options = options;
  }

  /** Starts to watch the file. Call it whenever a reader begins to wait. */
  start(): void {
    this.#unwanted = 0;
    if (this.#closed || this.#watcher !== undefined) return;
    this.#watch();
    // Check once now, to find writes that happened before the watch began.
    this.#schedule(0);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#unwatch();
  }

  /** Watches only this log's write-ahead log. If the system cannot watch files, only the interval triggers checks. */
  #watch(): void {
    const { path } = this.#options;
    try {
      this.#watcher = watch(`${path}-wal`, { persistent: false }, () => this.#report());
      this.#watcher.on('error', () => this.#unwatch());
    } catch {
      this.#unwatch();
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #report(): void {
    if (this.#closed) return;
    if (!this.#options.isAwaited()) {
      this.#unwanted++;
      if (this.#unwanted < unwantedMax) return;
      clearTimeout(this.#timer);
      this.#unwatch();
      return;
    }
    this.#unwanted = 0;
    this.#looks = 0;
    this.#schedule(burstMs[0] ?? 0);
  }

  #schedule(pauseMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#looks++;
      this.#schedule(burstMs[this.#looks] ?? this.#options.pollMs);
      this.#options.look();
    }, pauseMs);
  }
}
