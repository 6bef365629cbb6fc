/**
 * Copies of the state for download. Each copy is a file that serves downloads for a range of positions, several at once if
 * needed. A copy is removed once a later one exists and nobody reads it any more. Operators get the current state. Gateways
 * may get a slightly older one, because they read the rest from the log. Each address may use only part of the downloads.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { busy } from './caller-queue.ts';
import { type CopyFile, copyOnThread } from './copy-snapshot.ts';
import { Tally } from './tally.ts';

/** Maximum age in commits of a copy for a gateway. `spanMs` limits the age in ms. */
const spanCommits = 1000;
const spanMs = 60_000;
/** Maximum number of files: the latest copy, those that are still being read, and the one that is being made. */
const filesMax = 3;
const downloadsMax = { operator: 16, gateways: 256, address: 64 };

export interface SnapshotCopiesOptions {
  /** Path of the state file. */
  readonly state: string;
  /** Position of the state's last commit. */
  readonly position: () => number;
  /** Folder for the copies. It is emptied at the start, because files in it were left by a killed process. */
  readonly folder: string;
  readonly downloadsMax?: Partial<typeof downloadsMax>;
  /** Monotonic clock in ms. */
  readonly now?: () => number;
}

export type SnapshotCaller =
  | { readonly kind: 'operator' }
  | { readonly kind: 'gateway'; readonly address: string };

interface CopyFacts extends CopyFile {
  readonly log: string | null;
  readonly seq: number;
  readonly hash: string;
  readonly digest: string;
}

interface KeptCopy extends CopyFacts {
  readonly path: string;
  readonly madeMs: number;
  readers: number;
}

export interface SnapshotCopy extends CopyFacts {
  readonly path: string;
  /** Releases the copy, so that its file may be removed. Further calls have no effect. */
  release(): void;
}

export class SnapshotCopies {
  readonly #options: SnapshotCopiesOptions;
  readonly #now: () => number;
  readonly #bounds: typeof downloadsMax;
  readonly #files = new Set<KeptCopy>();
  /** Number of waiting and running downloads, by caller. */
  readonly #downloads = new Tally();
  #latest: KeptCopy | undefined;
  #making: Promise<KeptCopy> | undefined;

  constructor(options: SnapshotCopiesOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#bounds = { ...downloadsMax, ...options.downloadsMax };
    rmSync(options.folder, { recursive: true, force: true });
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  }

  /** Returns a copy for a caller, unless `signal` aborts first. Rejects with `CommandError` or errors from `sqlite.ts`. */
  async acquire(caller: SnapshotCaller, signal: AbortSignal): Promise<SnapshotCopy> {
    signal.throwIfAborted();
    const leave = this.#enter(caller);
    try {
      const copy = await this.#fitFor(caller);
      signal.throwIfAborted();
      return this.#read(copy, leave);
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Counts a download and returns a function that ends it. Throws `CommandError` if there are too many downloads. */
  #enter(caller: SnapshotCaller): () => void {
    const { operator, gateways, address: ofAddress } = this.#bounds;
    const isOperator = caller.kind === 'operator';
    const leave = this.#downloads.tryHold(
      isOperator ? { operator } : { gateways, [`address ${caller.address}`]: ofAddress },
    );
    if (leave === undefined) throw busy('too many downloads of the snapshot are in progress');
    return leave;
  }

  async #fitFor({ kind }: SnapshotCaller): Promise<KeptCopy> {
    const position = this.#options.position();
    const fits = ({ seq, madeMs }: KeptCopy): boolean =>
      seq >= position ||
      (kind === 'gateway' && seq >= position - spanCommits && this.#now() - madeMs < spanMs);
    if (this.#latest !== undefined && fits(this.#latest)) return this.#latest;
    // Makes another copy if the shared one began too early to contain the state that an operator wants.
    const made = await this.#make();
    return fits(made) ? made : await this.#make();
  }

  /** Makes a copy of the state. Only one is made at a time, and callers that arrive meanwhile share it. */
  #make(): Promise<KeptCopy> {
    this.#making ??= this.#makeOne().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  async #makeOne(): Promise<KeptCopy> {
    if (this.#files.size >= filesMax) throw busy('earlier copies of the snapshot are still read');
    const path = join(this.#options.folder, `${randomUUID()}.db`);
    try {
      const file = await copyOnThread({ from: this.#options.state, to: path });
      const copy: KeptCopy = { ...file, ...readStateFacts(path), path, madeMs: this.#now(), readers: 0 };
      this.#files.add(copy);
      this.#latest = copy;
      for (const other of this.#files) this.#removeUnread(other);
      return copy;
    } catch (error) {
      remove(path);
      throw error;
    }
  }

  #read(copy: KeptCopy, leave: () => void): SnapshotCopy {
    copy.readers += 1;
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      copy.readers -= 1;
      leave();
      this.#removeUnread(copy);
    };
    const { readers: _, madeMs: __, ...facts } = copy;
    return { ...facts, release };
  }

  #removeUnread(copy: KeptCopy): void {
    if (copy === this.#latest || copy.readers > 0) return;
    this.#files.delete(copy);
    remove(copy.path);
  }
}

/** Reads position and digest of the state in a file, without reading rows. */
function readStateFacts(path: string): Omit<CopyFacts, keyof CopyFile> {
  const snapshot = openExisting(path, { readOnly: true });
  try {
    const { log, seq, hash } = snapshot.head;
    return { log, seq, hash, digest: snapshot.digest() };
  } finally {
    snapshot.close();
  }
}

function remove(path: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(path + suffix, { force: true });
}
