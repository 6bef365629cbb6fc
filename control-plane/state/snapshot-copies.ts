/**
 * Copies of the state for download: in the data folder, one at a time until it is sent, and always removed. Further
 * requests wait for a bounded time in a bounded queue, and are then refused with Busy.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError } from '../core/command-error.ts';
import { type CopyFacts, copyOnThread } from './copy-snapshot.ts';

const waitersMaxDefault = 32;
/** Shorter than a gateway waits for an answer. */
const waitMsDefault = 20_000;

export interface SnapshotCopiesOptions {
  /** Path of the state. */
  readonly state: string;
  /** Emptied at the start: files in it are left over from a process that was killed. */
  readonly folder: string;
  readonly waitersMax?: number;
  readonly waitMs?: number;
}

export interface SnapshotCopy extends CopyFacts {
  readonly path: string;
  /** Removes the file and starts the next waiter. Idempotent. */
  release(): void;
}

interface Waiter {
  begin(): void;
}

export class SnapshotCopies {
  readonly #options: SnapshotCopiesOptions;
  readonly #waiters = new Set<Waiter>();
  #isBusy = false;

  constructor(options: SnapshotCopiesOptions) {
    this.#options = options;
    rmSync(options.folder, { recursive: true, force: true });
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  }

  /** Abort `signal` where the copy is not needed any more. Rejects with CommandError, or the errors of shared/runtime/sqlite.ts. */
  async acquire(signal: AbortSignal): Promise<SnapshotCopy> {
    await this.#waitForTurn(signal);
    const path = join(this.#options.folder, `${randomUUID()}.db`);
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(path + suffix, { force: true });
      this.#startNext();
    };
    try {
      const facts = await copyOnThread({ from: this.#options.state, to: path });
      signal.throwIfAborted();
      return { ...facts, path, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #waitForTurn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#isBusy) {
      this.#isBusy = true;
      return;
    }
    const { waitersMax = waitersMaxDefault, waitMs = waitMsDefault } = this.#options;
    if (this.#waiters.size >= waitersMax) throw busy();
    await new Promise<void>((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#waiters.delete(waiter);
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        settle();
      };
      const waiter: Waiter = { begin: () => end(resolve) };
      const onAbort = (): void => end(() => reject(signal.reason));
      const timer = setTimeout(() => end(() => reject(busy())), waitMs);
      signal.addEventListener('abort', onAbort);
      this.#waiters.add(waiter);
    });
  }

  /** Stays busy where there is a waiter: it gets the turn. */
  #startNext(): void {
    const [waiter] = this.#waiters;
    if (waiter) waiter.begin();
    else this.#isBusy = false;
  }
}

function busy(): CommandError {
  return new CommandError('Busy', 'another download of the snapshot is in progress', {
    next: 'try again in a few seconds',
  });
}
