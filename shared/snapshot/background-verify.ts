/**
 * Repeatedly recomputes a snapshot's digests from its rows while the process serves, to find rows that something other than
 * the fold has changed. It reads through its own connection, opens one read transaction per table, and uses at most a tenth
 * of the processor's time.
 */

import { sleep } from '../runtime/retry.ts';
import { type Database, openDatabase, walBytes, walBytesMax } from '../runtime/sqlite.ts';
import type { Snapshot } from './snapshot.ts';
import { type TableName, tableNames } from './tables.ts';
import { verifyTable } from './verify.ts';

/** Number of rows read per turn of the event loop. */
const rowsPerSlice = 50;
/** Pause after a slice, as a multiple of the slice's duration. */
const pauseFactor = 9;
/**
 * Longest pause after a slice, in ms. A slice that seems slower was interrupted by other work, and a longer pause would only
 * keep the read transaction open.
 */
const pauseMsMax = 50;
/** Pause between two passes over all tables, as a multiple of a pass's duration. */
const passPauseFactor = 3;
/** Size in bytes of the write-ahead log at which reading stops, because it cannot be truncated during a read transaction. */
const walBytesMeanwhileMax = walBytesMax / 2;

/** Resolves with the tables that contradict their digests, or with none once `signal` aborts. Rejects on damaged pages. */
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

/** Whether the table matches its digest. Also returns true if reading was abandoned before the end. */
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
