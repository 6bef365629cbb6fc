/**
 * The spool of the outbox, `outbox.spool`: the groups of rows that arrived and are not in `outbox.db` yet. A group is written
 * without waiting for the disk, so the end of the process loses none of it, and the file is emptied once the database has it.
 * Groups have numbers, and the database keeps that of the last one which it took, so a group counts once whatever was emptied.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/** The most that the file may have, bytes: above what the queue of the outbox may hold. */
const bytesMax = 16 * 1024 * 1024;
/** After a write that failed, the next attempt, ms. */
const retryMs = 1_000;

/** A group of rows: each row is JSON, with a comma and a newline behind it. */
export interface UsageGroup {
  readonly rows: string;
  readonly count: number;
}
export interface SpooledGroup extends UsageGroup {
  readonly number: number;
  /** Id of the process start that it arrived in. */
  readonly incarnation: string;
}
interface ReadSpool {
  readonly groups: readonly SpooledGroup[];
  /** Where the file goes once it is emptied, if parts of it are no whole group, or one of another database. */
  readonly keptAs: string | undefined;
}

/** The spool of an outbox, by the path of its database. */
export function spoolPathOf(outboxPath: string): string {
  return `${outboxPath.replace(/\.db$/, '')}.spool`;
}

export class OutboxSpool {
  readonly #path: string;
  readonly #databaseId: string;
  #file: number | undefined;
  #bytes = 0;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  /** The file has parts that could not be read: it is renamed instead of emptied. */
  #keptAs: string | undefined;

  constructor(path: string, databaseId: string) {
    this.#path = path;
    this.#databaseId = databaseId;
  }

  /** False where the file is not to be written for now. Throws where it cannot be written: the next attempt is in a second. */
  append({ incarnation, number, rows, count }: SpooledGroup): boolean {
    if (performance.now() < this.#retryAtMs) return false;
    try {
      this.#file ??= this.#open();
      const checked = `${this.#databaseId} ${incarnation} ${number} ${count}\n${rows}`;
      // The first newline ends what an earlier write may have left incomplete.
      const text = Buffer.from(`\n${magic} ${crc32(checked)} ${checked}`);
      if (this.#bytes + text.length > bytesMax) throw new Error(`${this.#path} has its largest size`);
      const written = writeSync(this.#file, text);
      this.#bytes += written;
      if (written < text.length) throw new Error(`${this.#path} cannot be written; free some disk space`);
      return true;
    } catch (error) {
      this.#retryAtMs = performance.now() + retryMs;
      throw error;
    }
  }

  /** The database has all groups. Throws where the file cannot be emptied, which only costs its space. */
  empty(): void {
    if (this.#file === undefined || this.#bytes === 0) return;
    // Opened again where somebody removed it.
    if (fstatSync(this.#file).nlink === 0) this.close();
    else if (this.#keptAs !== undefined) this.#moveTo(this.#keptAs);
    else ftruncateSync(this.#file, 0);
    this.#bytes = 0;
  }

  /** The groups of this database in the file, in their order. Throws where it cannot be read: move it away then. */
  read(nowMs: number): ReadSpool {
    this.#file ??= this.#open();
    if (this.#bytes > bytesMax) throw new Error(`${this.#path} has ${this.#bytes} bytes and is not read`);
    const lines = readFileSync(this.#path, 'utf8').split('\n');
    const groups: SpooledGroup[] = [];
    for (let at = 0; at < lines.length; at++) {
      if (lines[at] === '') continue;
      const group = groupAt(lines, at, this.#databaseId);
      if (group === undefined) this.#keptAs = this.#damagedPath(nowMs);
      else {
        groups.push(group);
        at += group.count;
      }
    }
    return { groups, keptAs: this.#keptAs };
  }

  /** Keeps the file for people; a new one takes its place. Returns its path, and throws where it cannot be renamed. */
  moveAway(nowMs: number): string {
    const path = this.#damagedPath(nowMs);
    this.#moveTo(path);
    return path;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
    this.#bytes = 0;
  }

  #damagedPath(nowMs: number): string {
    return `${this.#path}.damaged-${nowMs}`;
  }

  #moveTo(path: string): void {
    this.close();
    renameSync(this.#path, path);
    this.#keptAs = undefined;
  }

  #open(): number {
    const file = openSync(this.#path, 'a', 0o600);
    this.#bytes = fstatSync(file).size;
    return file;
  }
}

const magic = 'headgate-spool-1';
const head = /^headgate-spool-1 (\d{1,10}) (([0-9a-f-]{36}) ([0-9a-f-]{36}) (\d{1,15}) (\d{1,7}))$/;

/** Undefined where no whole group of this database begins here. */
function groupAt(lines: readonly string[], at: number, databaseId: string): SpooledGroup | undefined {
  const [, checksum, checked, id, incarnation = '', number, count = ''] = head.exec(lines[at] ?? '') ?? [];
  if (id !== databaseId || at + Number(count) >= lines.length) return undefined;
  const rows = lines
    .slice(at + 1, at + 1 + Number(count))
    .map((line) => `${line}\n`)
    .join('');
  if (crc32(`${checked}\n${rows}`) !== Number(checksum)) return undefined;
  return { incarnation, number: Number(number), rows, count: Number(count) };
}
