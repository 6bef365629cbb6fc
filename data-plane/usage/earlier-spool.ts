/**
 * The spool of builds before the log of rows, `outbox.spool` and `outbox-2.spool`: groups of rows that may not be in `outbox.db`
 * yet. At the first start they are appended to the log, and the files are removed.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/** The most that those builds wrote to one file, bytes. */
const spoolBytesMax = 16 * 1024 * 1024;
/** Behind the last group of a file. */
const endLine = 'headgate-spool-end';

/** A group of rows: each row is JSON, with a comma and a newline behind it. */
export interface SpooledGroup {
  /** Groups of a folder are numbered in the order of their rows. */
  readonly number: number;
  /** Id of the process start that it arrived in. */
  readonly incarnation: string;
  readonly rows: string;
  readonly count: number;
}

interface EarlierSpool {
  /** In the order of their numbers; none twice. */
  readonly groups: readonly SpooledGroup[];
  /** Files with parts that could not be read. */
  readonly damaged: readonly string[];
}

/** The files of an outbox, by the path of its database. */
function spoolPathsOf(outboxPath: string): readonly string[] {
  const base = outboxPath.replace(/\.db$/, '');
  return [`${base}.spool`, `${base}-2.spool`].filter((path) => existsSync(path));
}

/** The groups of a database behind the last one that it has. */
export function readEarlierSpool(outboxPath: string, databaseId: string, taken: number): EarlierSpool {
  const groups = new Map<number, SpooledGroup>();
  const damaged: string[] = [];
  for (const path of spoolPathsOf(outboxPath)) {
    const read = groupsIn(path, databaseId);
    for (const group of read.groups) if (group.number > taken) groups.set(group.number, group);
    if (!read.isWhole) damaged.push(path);
  }
  return { groups: [...groups.values()].sort((one, other) => one.number - other.number), damaged };
}

/** The log has its groups. Files of `kept` are moved to other names, which are returned. */
export function endEarlierSpool(
  outboxPath: string,
  kept: readonly string[] | 'all',
  nowMs: number,
): string[] {
  return spoolPathsOf(outboxPath).flatMap((path) => {
    if (kept === 'all' || kept.includes(path)) {
      renameSync(path, `${path}.damaged-${nowMs}`);
      return [`${path}.damaged-${nowMs}`];
    }
    rmSync(path, { force: true });
    return [];
  });
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

function groupsIn(path: string, databaseId: string): { groups: readonly SpooledGroup[]; isWhole: boolean } {
  const found = statSync(path);
  // To read a pipe would wait for a writer of it.
  if (!found.isFile() || found.size > spoolBytesMax) return { groups: [], isWhole: false };
  const lines = readFileSync(path, 'utf8').split('\n');
  const groups: SpooledGroup[] = [];
  let isWhole = true;
  for (let at = 0; at < lines.length && lines[at] !== endLine; at++) {
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
