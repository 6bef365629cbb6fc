/**
 * A program that folds a fixed history into a snapshot and kills itself before its n-th writing statement, counted from the
 * creation of the file. If it is not killed, it prints the number of statements. With `copy N` it does not kill itself, but
 * copies the files before every Nth statement, because a kill would leave the same files. Arguments: path of the snapshot,
 * then n or `copy N`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { ChainWriter, fleetHistory, known } from './commits.ts';

/**
 * Number of records per transaction. It lies between one and all, so that a kill leaves some records stored and others
 * missing.
 */
export const recordsPerApply = 7;

/** Returns the history, including records that a reader skips. */
export function crashHistory(): LogRecord[] {
  const writer = new ChainWriter();
  const records = [writer.junk('junk'), writer.open()];
  for (const events of fleetHistory(51, 57)) records.push(writer.add(events));
  const unread = { type: 'later.kind', v: 1, critical: false, data: {} };
  records.push(writer.junk('junk'), writer.addStored([unread]), writer.add([known('no_op', {})]));
  return records;
}

function foldInPieces(path: string, records: readonly LogRecord[]): void {
  const { snapshot } = openOrRebuild(path, 'test-log');
  for (let rest = records.slice(); rest.length > 0; rest = rest.slice(recordsPerApply))
    snapshot.apply(rest.slice(0, recordsPerApply));
  snapshot.close();
}

type Run = (this: unknown, ...parameters: unknown[]) => unknown;

/** Copies the files in a child process, because closing a file in this process would release SQLite's locks on it. */
function copyTo(path: string, n: number): void {
  for (const suffix of ['', '-wal', '-shm'])
    if (existsSync(path + suffix)) execFileSync('cp', [path + suffix, `${path}.${n}${suffix}`]);
}

/** Counts every statement that may write, including those within one `exec`, and calls `act` before each of them. */
function beforeEach(act: (n: number) => void): () => number {
  let count = 0;
  const step = (): void => act(++count);
  const database = openDatabase(':memory:', { durability: 'normal' });
  const statement = Object.getPrototypeOf(database.prepare('SELECT 1')) as { run: Run };
  const { run } = statement;
  statement.run = function (...parameters) {
    step();
    return run.apply(this, parameters);
  };
  const driver = Object.getPrototypeOf(database) as Database;
  const { exec } = driver;
  driver.exec = function (sql: string) {
    for (const one of sql.split(';').filter((text) => text.trim() !== '')) {
      step();
      exec.call(this, one);
    }
    return this;
  };
  return () => count;
}

const [, program, path, what = ''] = process.argv;
if (path !== undefined && program?.endsWith('crash-fold.js')) {
  const distance = Number(/^copy (\d+)$/.exec(what)?.[1] ?? 0);
  const counted = beforeEach((n) => {
    if (distance > 0 && (n - 1) % distance === 0) copyTo(path, n);
    else if (n === Number(what)) process.kill(process.pid, 'SIGKILL');
  });
  foldInPieces(path, crashHistory());
  process.stdout.write(`${counted()}\n`);
}
