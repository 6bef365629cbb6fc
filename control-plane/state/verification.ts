/** Compares the rows of `state.db` with their digest for as long as the process runs. */

import type { Closers } from '../../shared/runtime/closers.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { verifyContinuously } from '../../shared/snapshot/background-verify.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

export function startVerification(snapshot: Snapshot, closers: Closers, logger: Logger): void {
  const stop = new AbortController();
  const verifying = verifyContinuously(snapshot, stop.signal).then(
    (tables) => {
      if (tables.length > 0)
        logger.fatal(
          { tables },
          'rows of state.db do not match their digest; stop this replica, delete its state.db and start it again',
        );
    },
    (error: unknown) =>
      logger.fatal({ err: error }, 'state.db cannot be read; stop this replica, delete it and start again'),
  );
  closers.add(async () => {
    stop.abort();
    await verifying;
  });
}
