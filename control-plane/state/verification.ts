/** Continuously compares the rows of `state.db` with their digest. If they differ, ends the process. */

import type { Closers } from '../../shared/runtime/closers.ts';
import { endOnFault } from '../../shared/runtime/fault.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { DatabaseCorrupt } from '../../shared/runtime/sqlite.ts';
import { verifyContinuously } from '../../shared/snapshot/background-verify.ts';
import { quarantineFile } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

export function startVerification(
  snapshot: Snapshot,
  closers: Closers,
  logger: Logger,
  pauseMsMin?: number,
): void {
  const stop = new AbortController();
  // Ends the process at once, because nothing may be decided on wrong rows. The next start rebuilds the file from the log.
  const end = (fault: unknown): never => {
    quarantineFile(snapshot.path);
    return endOnFault(
      logger,
      fault,
      'state.db is damaged: this replica ends, and rebuilds the file when it starts again',
    );
  };
  const verifying = verifyContinuously(snapshot, stop.signal, pauseMsMin).then((tables) => {
    if (tables.length > 0) end(new DatabaseCorrupt(`rows of ${tables.join(', ')} do not match their digest`));
  }, end);
  closers.add(async () => {
    stop.abort();
    await verifying;
  });
}
