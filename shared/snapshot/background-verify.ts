/**
 * Background verification: recomputes a snapshot's digests from its rows repeatedly while the process serves, so that a row
 * that something else than the fold changed is found, in a small snapshot within seconds.
 * It reads through its own connection, each table in one read transaction, so that the fold continues meanwhile. It uses
 * at most a tenth of the processor's time while it reads, and pauses between two passes.
 */

import { sleep } from '../runtime/retry.ts';
import { type Database, openDatabase, walBytes, walBytesMax } from '../runtime/sqlite.ts';
import type { Snapshot } from './snapshot.ts';
import { type TableName, tableNames } from './tables.ts';
import { verifyTable } from './verify.ts';

/** Rows read before the event loop gets its turn. */
const rowsPerSlice = 50;
/** Pause after a slice, as a multiple of its duration. */
const pauseFactor = 9;
/** A slice that took longer was interrupted, and its pause would keep the read transaction open meanwhile. */
const pauseMsMax = 50;
/** Pause after a pass, as a multiple of its duration. */
const passPauseFactor = 3;
/** An open read transaction keeps the write-ahead log from being shortened: a slower table is left for the next pass. */
const walBytesMeanwhileMax = walBytesMax / 2;

/** Resolves with the tables that differ as soon as some do, or with none once `signal` aborts. Rejects where pages are damaged. */
export async function verifyContinuously(
  snapshot: Pick<Snapshot, 'path'>,
  signal: AbortSignal,
  passPauseMsMin = 3000,
): Promise<readonly TableName[]> {
  const db = openDatabase(snapshot.path, { durability: 'normal', readOnly: true });
  try {
    while (!signal.aborted) {
      const begunMs = performance.now();
      const differing: TableName[] = [];
      for (const table of tableNames)
        if (!(await isWhole(db, table, snapshot, signal))) differing.push(table);
      if (differing.length > 0) return differing;
      await sleep(Math.max(passPauseMsMin, passPauseFactor * (performance.now() - begunMs)), signal);
    }
    return [];
  } finally {
    db.close();
  }
}

/** Also true where the pass was abandoned. */
async function isWhole(
  db: Database,
  table: TableName,
  snapshot: Pick<Snapshot, 'path'>,
  signal: AbortSignal,
): Promise<boolean> {
  db.exec('BEGIN');
  try {
    const steps = verifyTable(db, table, rowsPerSlice);
    while (!signal.aborted && walBytes(snapshot.path) <= walBytesMeanwhileMax) {
      const begunMs = performance.now();
      const step = steps.next();
      if (step.done) return step.value.isWhole;
      await sleep(Math.min(pauseMsMax, pauseFactor * (performance.now() - begunMs)), signal);
    }
    return true;
  } finally {
    db.exec('COMMIT');
  }
}
