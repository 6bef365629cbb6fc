/** Recomputes a snapshot's digests beside serving, slice by slice, once after each start. */
import type { Snapshot } from '../snapshot/snapshot.ts';
import { type Verdict, verifySteps } from '../snapshot/verify.ts';

/** Rows read before the event loop gets its turn. */
const rowsPerSlice = 500;

/** Resolves with the verdict, or undefined where `signal` aborted first. Rejects where the file's pages are damaged. */
export async function verifyInBackground(
  snapshot: Snapshot,
  signal: AbortSignal,
): Promise<Verdict | undefined> {
  const steps = verifySteps(snapshot.db, rowsPerSlice);
  while (!signal.aborted) {
    const step = steps.next();
    if (step.done) return step.value;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return undefined;
}
