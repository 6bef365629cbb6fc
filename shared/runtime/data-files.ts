/** Lists the files of a data folder with their maximum sizes. The size metric and `headgate doctor` use this table. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { walBytesMax } from './sqlite.ts';

interface FileKind {
  readonly name: RegExp;
  /** Maximum size in bytes, or undefined if the file grows only with data that it must keep. */
  readonly bytesMax?: number;
  /** Mechanism that enforces the maximum, or the data that the file must keep. */
  readonly by: string;
}

const megabyte = 1024 * 1024;

export const fileKinds: readonly FileKind[] = [
  { name: /\.db-wal$/, bytesMax: 2 * walBytesMax, by: 'shortenWal, and SQLite after each commit' },
  { name: /\.db-shm$/, bytesMax: megabyte, by: 'the length of the write-ahead log' },
  { name: /^lock\.db$/, bytesMax: megabyte, by: 'one row' },
  { name: /^decisions\.db$/, bytesMax: 320 * megabyte, by: 'DecisionFile: a ring' },
  { name: /^starts\.json$/, bytesMax: megabyte, by: 'two members' },
  { name: /^exchange\.json$/, bytesMax: 64 * megabyte, by: 'claims of present periods' },
  { name: /^sessions\.db$/, by: 'ended sessions and links that could still be valid' },
  { name: /^counters\.db$/, by: 'counters of periods that are not over' },
  { name: /^outbox\.db$/, by: 'sums of present periods' },
  { name: /^history\.db$/, by: 'every version of every row, up to --history-gigabytes' },
  { name: /^gateways\.db$/, by: 'gateways, and 20 000 that ended' },
  { name: /^usage\.db$/, by: 'sums of usage by hour and key, and completed requests of the latest minute' },
  { name: /^state\.db$/, by: 'the present state, and the latest 100 000 commands' },
];

export interface FoundFile {
  readonly name: string;
  readonly bytes: number;
  readonly bytesMax?: number;
}

/** Returns the listed files that exist in the folder. Skips files that are being removed. */
export function dataFiles(folder: string): FoundFile[] {
  return readdirSync(folder).flatMap((name) => {
    const kind = fileKinds.find((each) => each.name.test(name));
    const stats = kind && statSync(join(folder, name), { throwIfNoEntry: false });
    if (!stats?.isFile()) return [];
    return [{ name, bytes: stats.size, ...(kind?.bytesMax !== undefined && { bytesMax: kind.bytesMax }) }];
  });
}

export function isOvergrown({ bytes, bytesMax }: FoundFile): boolean {
  return bytesMax !== undefined && bytes > bytesMax;
}
