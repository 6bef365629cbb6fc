/**
 * Tells a log's tails when to look at its file again: at once when the folder reports a change, a few times shortly after
 * (the report comes while the commit is still on its way to the disk), and at a slow beat in case a report was lost.
 * A report is only a hint; nothing relies on it but latency.
 */
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Pauses between the looks after a report, ms. Together they outlast a slow flush. */
const burstMs: readonly number[] = [0, 1, 1, 1, 1, 2, 2, 3, 5, 8, 13, 21];

export interface FileWatchOptions {
  readonly path: string;
  /** The slow beat. */
  readonly pollMs: number;
  /** Looks at the file. Must not throw. */
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

  /** Begins to watch; again and again does nothing more. */
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

  /** Where the system has no watches left, the beat alone must do. */
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
    if (this.#timer === undefined) return;
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
