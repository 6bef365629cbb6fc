/**
 * Opens the state from which a control plane starts: the snapshot on its disk, which must belong to the log. Code in
 * `control-plane/state` reads the current rows for the admin API. It never writes rows, because only the fold does.
 */
import { type ControlLog, LogReplaced, LogTruncated } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { checkIdentity, readLogId, WrongPosition } from '../../shared/snapshot/log-identity.ts';
import { openOrRebuild, quarantineFile } from '../../shared/snapshot/open-snapshot.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

const startTimeoutMs = 60_000;
const rebuiltMessage = 'state.db was quarantined and is rebuilt from the log';

/** Opens the state. Rejects with the log's errors, or with an Error that says what to do if this log must not be folded. */
export async function openState(path: string, log: ControlLog, logger: Logger): Promise<Snapshot> {
  // Refuses a log that lacks its beginning, even if nothing has been folded yet.
  await readLogId(log).catch(refuse);
  const { snapshot, rebuiltBecause } = openOrRebuild(path);
  if (rebuiltBecause !== undefined) logger.warn({ because: rebuiltBecause }, rebuiltMessage);
  try {
    await checkIdentity(log, snapshot);
  } catch (error) {
    snapshot.close();
    if (!(error instanceof WrongPosition)) refuse(error);
    logger.warn({ because: error.message }, rebuiltMessage);
    quarantineFile(path);
    return openState(path, log, logger);
  }
  return snapshot;
}

/** Adds the next step for an operator, because a log that has lost commits cannot be folded. */
function refuse(error: unknown): never {
  if (!(error instanceof LogTruncated || error instanceof LogReplaced)) throw error;
  const next =
    'restore the log from its last backup, see docs/backup.md; only if the log is complete and state.db is wrong, move state.db away';
  throw new Error(`${error.message}; ${next}`, { cause: error });
}

/** Waits until the log is folded to its end. Times out only if folding stops, because a long log takes time to fold. */
export async function foldedToEnd(replicator: Replicator, snapshot: Snapshot): Promise<void> {
  for (;;) {
    const before = snapshot.seq;
    try {
      return await replicator.caughtUp(startTimeoutMs);
    } catch (error) {
      if (snapshot.seq === before) throw error;
    }
  }
}
