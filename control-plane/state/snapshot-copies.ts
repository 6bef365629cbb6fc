/**
 * Copies of the state for download: in the data folder until they are sent, and always removed. Each needs disk space, so
 * there are few at a time. The operator has a queue of its own; of gateways, each address has one copy at a time and a part
 * of the queue, because all gateways share one token and only their addresses distinguish them.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CallerQueue, type QueueLimits } from './caller-queue.ts';
import { type CopyFacts, copyOnThread } from './copy-snapshot.ts';

/** Shorter than a gateway waits for an answer. */
const waitMs = 20_000;
const operatorLimits: QueueLimits = { concurrencyMax: 1, waitersMax: 8, waitersPerCallerMax: 8, waitMs };
/** A client that reads slowly delays only those of its own address. */
const gatewayLimits: QueueLimits = { concurrencyMax: 2, waitersMax: 32, waitersPerCallerMax: 16, waitMs };

export interface SnapshotCopiesOptions {
  /** Path of the state. */
  readonly state: string;
  /** Emptied at the start: files in it are left over from a process that was killed. */
  readonly folder: string;
  readonly operatorLimits?: Partial<QueueLimits>;
  readonly gatewayLimits?: Partial<QueueLimits>;
}

export type SnapshotCaller =
  | { readonly kind: 'operator' }
  | { readonly kind: 'gateway'; readonly address: string };

export interface SnapshotCopy extends CopyFacts {
  readonly path: string;
  /** Removes the file and starts the next waiter. Idempotent. */
  release(): void;
}

export class SnapshotCopies {
  readonly #options: SnapshotCopiesOptions;
  readonly #operator: CallerQueue;
  readonly #gateways: CallerQueue;

  constructor(options: SnapshotCopiesOptions) {
    this.#options = options;
    this.#operator = new CallerQueue({ ...operatorLimits, ...options.operatorLimits });
    this.#gateways = new CallerQueue({ ...gatewayLimits, ...options.gatewayLimits });
    rmSync(options.folder, { recursive: true, force: true });
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  }

  /** Abort `signal` where the copy is not needed any more. Rejects with CommandError, or the errors of shared/runtime/sqlite.ts. */
  async acquire(caller: SnapshotCaller, signal: AbortSignal): Promise<SnapshotCopy> {
    const releaseTurn = await this.#waitForTurn(caller, signal);
    const path = join(this.#options.folder, `${randomUUID()}.db`);
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(path + suffix, { force: true });
      releaseTurn();
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

  #waitForTurn(caller: SnapshotCaller, signal: AbortSignal): Promise<() => void> {
    return caller.kind === 'operator'
      ? this.#operator.acquire('operator', signal)
      : this.#gateways.acquire(caller.address, signal);
  }
}
