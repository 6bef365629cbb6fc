/**
 * Triggers the checks of a log's file: at once when the system reports a write to its journal, a few times shortly after (the
 * report arrives before the commit is on the disk), and at a slow interval in case a report was lost.
 * A report is only a hint; only latency depends on it. While nobody waits there are none: each would cost a reader that reads
 * at its own pace as much as the record.
 */
import { type FSWatcher, watch } from 'node:fs';

/** Pauses between the checks after a report, ms. Together they last longer than a slow flush. */
const burstMs: readonly number[] = [0, 1, 1, 1, 1, 2, 2, 3, 5, 8, 13, 21];
/** After so many reports for which nobody waited, the watch ends until somebody waits again. */
const unwantedMax = 4;

export interface FileWatchOptions {
  readonly path: string;
  /** The slow interval. */
  readonly pollMs: number;
  /** Does anybody wait for a change? */
  readonly isAwaited: () => boolean;
  /** Checks the file. Must not throw. */
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

  /** Watches from now on; call it whenever somebody begins to wait. */
  start(): void {
    this.#unwanted = 0;
    if (this.#closed || this.#watcher !== undefined) return;
    this.#watch();
    // What was written before the watch began is found now.
    this.#schedule(0);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#unwatch();
  }

  /** Of the journal alone, because other logs have their files in the same folder. Without watches only the interval is used. */
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
