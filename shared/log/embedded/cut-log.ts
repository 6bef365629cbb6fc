/** Cuts an embedded log behind commits that were archived. */
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, rmSync, statSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { sleep } from '../../runtime/retry.ts';
import { lockFile } from '../../runtime/sqlite.ts';
import type { LogCutter, NewBeginning } from '../core/beginning.ts';
import { beginningStatePath, readBeginning, writeBeginning } from './beginning-files.ts';
import { EmbeddedFile } from './embedded-file.ts';
import { untilUnlocked } from './embedded-log.ts';

const lockedMs = 10_000;
/** Between two removals, so that those who append get their turns. */
const pauseMs = 20;
/** What is left is copied to make the file shorter, while nobody can append: more is not copied. */
const compactedBytesMax = 64 * 1024 * 1024;

export class EmbeddedLogCutter implements LogCutter {
  readonly #path: string;
  readonly #lock: { release(): void };
  readonly #file: EmbeddedFile;

  /** Throws DatabaseBusy where another one is at work. */
  constructor(logPath: string) {
    this.#path = logPath;
    this.#lock = lockFile(`${logPath.replace(/\.db$/, '')}.beginning-lock.db`);
    this.#file = new EmbeddedFile({ path: logPath, durability: 'full', allowTrimmed: true });
  }

  partPath(at: Pick<NewBeginning, 'seq' | 'foldVersion'>): string {
    return `${beginningStatePath(this.#path, at)}.part`;
  }

  async setBeginning(facts: NewBeginning): Promise<void> {
    const part = this.partPath(facts);
    const state = beginningStatePath(this.#path, facts);
    const hash = createHash('sha256');
    await pipeline(createReadStream(part), hash);
    await synced(part, 'r+');
    const { size: bytes } = statSync(part);
    await rename(part, state);
    await synced(dirname(state), 'r');
    const kept = { file: basename(state), bytes, sha256: hash.digest('hex') };
    writeBeginning(this.#path, { v: 1, ...facts, state: kept });
    await synced(dirname(state), 'r');
    this.#removeOthers(kept.file);
  }

  /** A part at a time. */
  async *removeArchived(): AsyncGenerator<number> {
    const beginning = readBeginning(this.#path, (offset) => this.#file.recordAt(offset));
    if (beginning === undefined) return;
    for (let removed = 0; ; ) {
      const part = await this.#unlocked(() => this.#file.removeBefore(beginning.offset));
      if (part === 0) break;
      removed += part;
      yield removed;
      await sleep(pauseMs);
    }
  }

  async compact(): Promise<boolean> {
    if (this.#file.usedBytes() > compactedBytesMax) return false;
    await this.#unlocked(() => this.#file.compact());
    return true;
  }

  async close(): Promise<void> {
    this.#file.close();
    this.#lock.release();
  }

  #unlocked<Result>(work: () => Result): Promise<Result> {
    return untilUnlocked(work, this.#path, lockedMs);
  }

  /** States of earlier bases, and what an interrupted run left. */
  #removeOthers(kept: string): void {
    const folder = dirname(this.#path);
    const own = `${basename(this.#path).replace(/\.db$/, '')}.beginning-`;
    for (const name of readdirSync(folder)) {
      const isState = name.startsWith(own) && /^\d+-\d+\.db/.test(name.slice(own.length));
      if (isState && name !== kept) rmSync(join(folder, name), { force: true });
    }
  }
}

async function synced(path: string, flags: 'r' | 'r+'): Promise<void> {
  const opened = await open(path, flags);
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}
