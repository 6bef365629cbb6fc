/**
 * Recomputes a snapshot's digests from its rows beside serving, again and again, for as long as the process runs: a row
 * that was changed behind the fold's back is found, in a small snapshot within seconds.
 * It reads through a connection of its own, each table at one moment, so that folding goes on meanwhile; and it takes a
 * tenth of the processor's time at most while it reads, and rests between two readings.
 */

import { sleep } from '../runtime/retry.ts';
import { type Database, openDatabase } from '../runtime/sqlite.ts';
import { type TableName, tableNames } from './tables.ts';
import { verifyTable } from './verify.ts';

/** Rows read before the event loop gets its turn. */
const rowsPerSlice = 50;
/** Pause after a slice, in times of what it took. */
const pauseFactor = 9;
const restMsMin = 3000;
/** Rest after a reading, in times of what it took. */
const restFactor = 3;
/** What is committed meanwhile cannot be moved out of the write-ahead log: a table that takes longer is left for the next reading. */
const commitsMeanwhileMax = 2000;

export interface Verified {
  readonly path: string;
  /** Last commit folded. */
  readonly seq: number;
}

/** Resolves with the tables that differ as soon as some do, or with none once `signal` aborts. Rejects where pages are damaged. */
export async function verifyContinuously(
  snapshot: Verified,
  signal: AbortSignal,
): Promise<readonly TableName[]> {
  const db = openDatabase(snapshot.path, { durability: 'normal', readOnly: true });
  try {
    while (!signal.aborted) {
      const begunMs = performance.now();
      const differing: TableName[] = [];
      for (const table of tableNames)
        if (!(await isWhole(db, table, snapshot, signal))) differing.push(table);
      if (differing.length > 0) return differing;
      await sleep(Math.max(restMsMin, restFactor * (performance.now() - begunMs)), signal);
    }
    return [];
  } finally {
    db.close();
  }
}

/** True as well where the reading was given up. */
async function isWhole(
  db: Database,
  table: TableName,
  snapshot: Verified,
  signal: AbortSignal,
): Promise<boolean> {
  const seqMax = snapshot.seq + commitsMeanwhileMax;
  db.exec('BEGIN');
  try {
    const steps = verifyTable(db, table, rowsPerSlice);
    while (!signal.aborted && snapshot.seq <= seqMax) {
      const begunMs = performance.now();
      const step = steps.next();
      if (step.done) return step.value.isWhole;
      await sleep(pauseFactor * (performance.now() - begunMs), signal);
    }
    return true;
  } finally {
    db.exec('COMMIT');
  }
}
