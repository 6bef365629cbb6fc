/**
 * Copies of the state for download. One is made for a span of positions and kept as a file in the data folder; as many as ask
 * for it at once read the same one. It is removed once a later one is there and nobody reads it.
 * The operator gets the present state, and gateways one that is a little older, as they read the rest from the log. All gateways
 * share one token and only their addresses distinguish them, so an address has a part of the downloads.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { busy } from './caller-queue.ts';
import { type CopyFile, copyOnThread } from './copy-snapshot.ts';
import { Tally } from './tally.ts';

/** How old a copy may be for a gateway, in commits and in time. */
const spanCommits = 1000;
const spanMs = 60_000;
/** Files at most: the latest, those that are still read, and the one that is made. */
const filesMax = 3;
const downloadsMax = { operator: 16, gateways: 256, address: 64 };

export interface SnapshotCopiesOptions {
  /** Path of the state. */
  readonly state: string;
  /** `seq` of the last commit in it. */
  readonly position: () => number;
  /** Emptied at the start: files in it are left over from a process that was killed. */
  readonly folder: string;
  readonly downloadsMax?: Partial<typeof downloadsMax>;
  /** Monotonic, ms. */
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
  /** The file may be removed from here on. Idempotent. */
  release(): void;
}

export class SnapshotCopies {
  readonly #options: SnapshotCopiesOptions;
  readonly #now: () => number;
  readonly #bounds: typeof downloadsMax;
  readonly #files = new Set<KeptCopy>();
  /** By who asks: downloads that wait or run. */
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

  /** Abort `signal` where the copy is not needed any more. Rejects with CommandError, or the errors of shared/runtime/sqlite.ts. */
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

  /** Counts a download; throws where there are too many. Returns what counts it no more. */
  #enter(caller: SnapshotCaller): () => void {
    const { operator, gateways, address: ofAddress } = this.#bounds;
    const counted = caller.kind === 'operator' ? ['operator'] : ['gateways', `address ${caller.address}`];
    for (const name of counted) {
      const most = name === 'operator' ? operator : name === 'gateways' ? gateways : ofAddress;
      if (this.#downloads.of(name) >= most) throw busy(`${most} downloads of the snapshot are in progress`);
    }
    return this.#downloads.hold(counted);
  }

  async #fitFor({ kind }: SnapshotCaller): Promise<KeptCopy> {
    const position = this.#options.position();
    const fits = ({ seq, madeMs }: KeptCopy): boolean =>
      seq >= position ||
      (kind === 'gateway' && seq >= position - spanCommits && this.#now() - madeMs < spanMs);
    if (this.#latest !== undefined && fits(this.#latest)) return this.#latest;
    // A copy that began before may be of an earlier state than the operator asks for.
    const made = await this.#make();
    return fits(made) ? made : await this.#make();
  }

  /** One at a time, for all that ask meanwhile. */
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
      const copy: KeptCopy = { ...file, ...stateIn(path), path, madeMs: this.#now(), readers: 0 };
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

/** Which state the file holds. Reads no rows of it. */
function stateIn(path: string): Omit<CopyFacts, keyof CopyFile> {
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
