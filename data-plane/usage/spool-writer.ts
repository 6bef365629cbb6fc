/**
 * Writes the spool of the outbox, on the thread of requests and without ever waiting for the disk: one write at a time is
 * under way, and what arrives meanwhile is written with the next. So a transaction of the usage worker that waits for the disk
 * holds no group back. Two files take turns: one is emptied once the database has all its groups.
 */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import {
  type SpooledGroup,
  spoolBytesMax,
  spoolEnd,
  spoolEndOf,
  spoolHead,
  spoolPathsOf,
} from './outbox-spool.ts';

/** From this size on the other file is written, bytes. */
const turnBytes = 256 * 1024;
/** A buffer that is used again for nearly every write: a new one for each costs memory until it is collected. */
const bufferBytes = 64 * 1024;
/** A write that takes longer counts as one that fails, until it ends, ms. */
const lateMs = 50;
/** After a write that failed, the next attempt, ms. */
const retryMs = 1_000;

/** Where the groups of a process begin. */
export interface SpoolStart {
  readonly outboxPath: string;
  readonly databaseId: string;
  readonly incarnation: string;
  /** Number of the last group that is in the files or in the database. */
  readonly number: number;
  /** Number of the last group that the database has. */
  readonly taken: number;
}

export interface SpoolWriterOptions extends SpoolStart {
  readonly onError: (error: Error) => void;
}

interface SpoolFile {
  readonly path: string;
  handle: FileHandle | undefined;
  /** Which file `bytes` is of; undefined before it was opened. */
  found: Stats | undefined;
  /** Where its groups end, and the next one is written. */
  bytes: number;
  /** Number of the last group in it. */
  last: number;
  /** Somebody may have removed it since it was looked for. */
  isUnsure: boolean;
}

interface Waiting extends SpooledGroup {
  /** Rows of this process with this group. */
  readonly rowsUpTo: number;
}

export class SpoolWriter {
  /** Rows of this process in the spool, without a gap: all before them are there or in the database. */
  keptRows = 0;
  readonly #options: SpoolWriterOptions;
  readonly #files: readonly [SpoolFile, SpoolFile];
  /** What is being written, unless it is longer. */
  readonly #bytes = Buffer.allocUnsafeSlow(bufferBytes);
  #turn: 0 | 1 = 0;
  #number: number;
  #rows = 0;
  #taken: number;
  #waiting: Waiting[] = [];
  /** Groups that could not be written, and are not known to be in the database. */
  #failed: Waiting[] = [];
  #inWrite: readonly Waiting[] = [];
  #writingSinceMs = Number.POSITIVE_INFINITY;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;
  #isClosed = false;
  #onWritten: () => void = () => undefined;

  constructor(options: SpoolWriterOptions) {
    this.#options = options;
    this.#number = options.number;
    this.#taken = options.taken;
    const [first, second] = spoolPathsOf(options.outboxPath).map((path) => ({
      ...{ path, handle: undefined, found: undefined, bytes: 0, last: options.number, isUnsure: false },
    })) as [SpoolFile, SpoolFile];
    this.#files = [first, second];
  }

  /** True while groups are to reach the database at once, because the files cannot be written, or not in time. */
  get isFailing(): boolean {
    return this.#failed.length > 0 || performance.now() - this.#writingSinceMs > lateMs;
  }

  /** Rows of groups that are known to be neither in a file nor in the database. */
  get unkeptRows(): number {
    const inWrite = this.#inWrite.filter((group) => group.number > this.#taken);
    return [...this.#failed, ...inWrite, ...this.#waiting].reduce((sum, { count }) => sum + count, 0);
  }

  /** Begins to write a group, and returns its number. Never throws. */
  append(rows: string, count: number): number {
    const number = ++this.#number;
    this.#rows += count;
    const group = {
      ...{ number, rows, count, incarnation: this.#options.incarnation },
      rowsUpTo: this.#rows,
    };
    if (this.#isClosed || performance.now() < this.#retryAtMs) this.#failed.push(group);
    else {
      this.#waiting.push(group);
      this.#writing ??= this.#write();
    }
    return number;
  }

  /** The database has all groups up to this number. */
  taken(number: number): void {
    this.#taken = Math.max(this.#taken, number);
    for (const file of this.#files) file.isUnsure = true;
    this.#failed = this.#failed.filter((group) => group.number > this.#taken);
    // While a write hangs, what the database takes without it must not gather here.
    this.#waiting = this.#waiting.filter((group) => group.number > this.#taken);
  }

  /** Calls `listener` after each write, also one that failed. One listener. */
  setOnWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** Resolves once nothing is being written. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  /** Ends what is being written, and empties the files whose groups the database has. Later groups fail. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#writing;
    for (const file of this.#files) {
      try {
        await this.#closeFile(file);
      } catch (error) {
        this.#report(error);
      }
      file.handle = undefined;
    }
  }

  async #closeFile(file: SpoolFile): Promise<void> {
    // That of an earlier process, which this one did not need.
    if (file.handle === undefined && !(await stat(file.path).catch(() => undefined))) return;
    const handle = await this.#handleOf(file);
    if (file.last <= this.#taken) await handle.write(spoolEnd, 0);
    await handle.close();
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const groups = this.#waiting;
      this.#inWrite = groups;
      this.#waiting = [];
      this.#writingSinceMs = performance.now();
      try {
        await this.#append(groups);
        const last = groups.at(-1);
        if (this.#failed.length === 0 && last !== undefined) this.keptRows = last.rowsUpTo;
      } catch (error) {
        this.#retryAtMs = performance.now() + retryMs;
        this.#failed.push(...groups, ...this.#waiting);
        this.#waiting = [];
        this.taken(this.#taken);
        this.#letGo();
        this.#report(error);
      }
      this.#inWrite = [];
      this.#writingSinceMs = Number.POSITIVE_INFINITY;
      this.#onWritten();
    }
    this.#writing = undefined;
  }

  /** The next attempt opens the files again: a handle may be what is wrong. */
  #letGo(): void {
    for (const file of this.#files) {
      void file.handle?.close().catch(() => undefined);
      file.handle = undefined;
    }
  }

  async #append(groups: readonly SpooledGroup[]): Promise<void> {
    const { databaseId } = this.#options;
    const texts = groups.flatMap((group) => [spoolHead(databaseId, group), group.rows]);
    texts.push(spoolEnd);
    const length = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    const bytes = length > this.#bytes.length ? Buffer.allocUnsafeSlow(length) : this.#bytes;
    texts.reduce((at, text) => at + bytes.write(text, at), 0);
    const file = await this.#next();
    const handle = await this.#handleOf(file);
    if (file.bytes + length > spoolBytesMax) throw new Error(`${file.path} has its largest size`);
    file.last = groups.at(-1)?.number ?? file.last;
    const { bytesWritten } = await handle.write(bytes, 0, length, file.bytes);
    if (bytesWritten < length) throw new Error(`${file.path} cannot be written; free some disk space`);
    // The next group is written over the end.
    file.bytes += length - spoolEnd.length;
  }

  /** The file for the next write: the other one where this has its size and the database has all groups of that. */
  async #next(): Promise<SpoolFile> {
    const file = this.#files[this.#turn];
    const other = this.#files[this.#turn === 0 ? 1 : 0];
    if (file.bytes < turnBytes || other.last > this.#taken) return file;
    await this.#handleOf(other);
    // What is behind the next write is of groups that the database has.
    other.bytes = 0;
    this.#turn = this.#turn === 0 ? 1 : 0;
    return other;
  }

  async #handleOf(file: SpoolFile): Promise<FileHandle> {
    if (file.handle !== undefined && file.isUnsure && !(await isAt(file.path, file.handle))) {
      await file.handle.close();
      file.handle = undefined;
      file.found = undefined;
    }
    file.isUnsure = false;
    if (file.handle === undefined) {
      file.handle = await open(file.path, constants.O_WRONLY | constants.O_CREAT, 0o600);
      const found = await file.handle.stat();
      if (!found.isFile()) throw new Error(`${file.path} is no file`);
      // What a write that failed left in it is written over.
      if (!isSame(file.found, found) || found.size < file.bytes)
        file.bytes = spoolEndOf(await readFile(file.path));
      file.found = found;
    }
    return file.handle;
  }

  #report(error: unknown): void {
    this.#options.onError(error instanceof Error ? error : new Error(String(error)));
  }
}

/** False where somebody removed or renamed the file. */
async function isAt(path: string, handle: FileHandle): Promise<boolean> {
  const [found, own] = await Promise.all([stat(path).catch(() => undefined), handle.stat()]);
  return isSame(found, own);
}

function isSame(one: Stats | undefined, other: Stats): boolean {
  return one?.ino === other.ino && one.dev === other.dev;
}
