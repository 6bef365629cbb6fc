/**
 * The spool of the outbox, `outbox.spool` and `outbox-2.spool`: the groups of rows that may not be in `outbox.db` yet. The
 * thread of requests writes them (spool-writer.ts) without waiting for the disk, so the end of the process loses none of them.
 * Groups have numbers, and the database keeps that of the last one which it took, so a group counts once whatever is in
 * the files. Both are allocated at the start and written over from their beginning, so that a full disk takes nothing that was
 * answered; what is behind the end of a file is of groups that the database has.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs';
import { crc32 } from 'node:zlib';

/** What a file has from the start, bytes: more than the rows that may wait for the database have. */
export const spoolBytes = 4 * 1024 * 1024;
/** The most that one file may have, bytes, where rows are long. */
export const spoolBytesMax = 16 * 1024 * 1024;
const allocatedAtOnce = 64 * 1024;
const endLine = 'headgate-spool-end';
/** Behind the last group of a file. */
export const spoolEnd = `\n${endLine}\n`;

/** A group of rows: each row is JSON, with a comma and a newline behind it. */
export interface UsageGroup {
  /** Groups of a folder are numbered in the order of their rows; where one has the rows of several, the last number. */
  readonly number: number;
  readonly rows: string;
  readonly count: number;
}
export interface SpooledGroup extends UsageGroup {
  /** Id of the process start that it arrived in. */
  readonly incarnation: string;
}
interface ReadSpool {
  /** In the order of their numbers. */
  readonly groups: readonly SpooledGroup[];
  /** What could not be read, and where it is kept for people. */
  readonly faults: readonly Error[];
  /** Files with parts that could not be read, and where each is kept once the database has its groups. */
  readonly damaged: ReadonlyMap<string, string>;
}

/** The files of an outbox, by the path of its database. */
export function spoolPathsOf(outboxPath: string): readonly [string, string] {
  const base = outboxPath.replace(/\.db$/, '');
  return [`${base}.spool`, `${base}-2.spool`];
}

/** What is written before the rows of a group: `databaseId` names the database that it belongs to. */
export function spoolHead(databaseId: string, { incarnation, number, count, rows }: SpooledGroup): string {
  const named = `${databaseId} ${incarnation} ${number} ${count}\n`;
  // The first newline ends what an earlier write may have left incomplete.
  return `\n${magic} ${crc32(rows, crc32(named))} ${named}`;
}

/**
 * The groups of a database. Nothing of a file that can be read is changed; one that cannot be read is moved away, because
 * numbers of its groups would be given again. Throws where that fails too.
 */
export function readSpool(outboxPath: string, databaseId: string, nowMs: number): ReadSpool {
  const groups: SpooledGroup[] = [];
  const faults: Error[] = [];
  const damaged = new Map<string, string>();
  for (const path of spoolPathsOf(outboxPath)) {
    if (!existsSync(path)) continue;
    const kept = keptPath(path, nowMs);
    try {
      const read = groupsIn(path, databaseId);
      groups.push(...read.groups);
      if (read.isWhole) continue;
      damaged.set(path, kept);
      faults.push(new Error(`parts of the spool of usage cannot be read and are not billed: ${kept}`));
    } catch (error) {
      renameSync(path, kept);
      const reason = error instanceof Error ? error.message : String(error);
      faults.push(new Error(`the spool of usage cannot be read and is not billed: ${kept}: ${reason}`));
    }
  }
  return { groups: groups.sort((a, b) => a.number - b.number), faults, damaged };
}

/** All files, and where each is kept for people. */
export function allKept(outboxPath: string, nowMs: number): ReadonlyMap<string, string> {
  const paths = spoolPathsOf(outboxPath).filter((path) => existsSync(path));
  return new Map(paths.map((path) => [path, keptPath(path, nowMs)]));
}

function keptPath(path: string, nowMs: number): string {
  return `${path}.damaged-${nowMs}`;
}

/** An id of a process start that is always the same for a text. */
export function derivedId(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

/**
 * The database has the groups of the files: empty ones are allocated, those of `kept` moved to their other names. Throws where
 * a file cannot be changed or there is no room; it then grows as it is written.
 */
export function emptySpool(outboxPath: string, kept: ReadonlyMap<string, string>): void {
  for (const path of spoolPathsOf(outboxPath)) {
    const other = kept.get(path);
    if (other !== undefined && existsSync(path)) renameSync(path, other);
    allocate(path);
  }
}

/** Zeros are written, because a file that was only made longer has no room of its own. */
function allocate(path: string): void {
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    if (fstatSync(file).size > spoolBytes) ftruncateSync(file, spoolBytes);
    const bytes = Buffer.alloc(allocatedAtOnce);
    bytes.write(spoolEnd);
    for (let at = 0; at < spoolBytes; bytes.fill(0, 0, spoolEnd.length))
      at += writeSync(file, bytes, 0, Math.min(bytes.length, spoolBytes - at), at);
  } finally {
    closeSync(file);
  }
}

/** Where the next group goes, in the bytes of a file. */
export function spoolEndOf(bytes: Buffer): number {
  const end = bytes.indexOf(spoolEnd);
  return end === -1 ? bytes.length : end;
}

/** The database could not be written: the files stay as they are, and those of `kept` are copied. Throws without room. */
export function copySpool(kept: ReadonlyMap<string, string>): void {
  for (const [path, other] of kept) copyFileSync(path, other);
}

function groupsIn(path: string, databaseId: string): { groups: readonly SpooledGroup[]; isWhole: boolean } {
  const found = statSync(path);
  // To read a pipe would wait for a writer of it.
  if (!found.isFile()) throw new Error(`${path} is no file`);
  const { size } = found;
  if (size > spoolBytesMax) throw new Error(`${path} has ${size} bytes and is not read`);
  const lines = readFileSync(path, 'utf8').split('\n');
  const groups: SpooledGroup[] = [];
  let isWhole = true;
  for (let at = 0; at < lines.length; at++) {
    if (lines[at] === endLine) break;
    if (lines[at] === '') continue;
    const group = groupAt(lines, at, databaseId);
    if (group === undefined) isWhole = false;
    else {
      groups.push(group);
      at += group.count;
    }
  }
  return { groups, isWhole };
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
