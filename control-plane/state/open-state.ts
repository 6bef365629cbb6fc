/**
 * Opens the state that a control plane starts from: the snapshot on its disk, which must belong to the log. Another log in
 * its place is refused, unless it is the successor that was restored from it, and then only once that state is complete.
 */
import { type ControlLog, LogReplaced, LogTruncated } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import {
  checkIdentity,
  readGenesis,
  succeeds,
  WrongPosition,
  wholeFrom,
} from '../../shared/snapshot/log-identity.ts';
import { openOrRebuild, quarantineFile } from '../../shared/snapshot/open-snapshot.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

export interface OpenedState {
  readonly snapshot: Snapshot;
  /** Throws where the restore of the log is incomplete. Call it once the fold has reached the end of the log. */
  checkWhole(): void;
}

const startTimeoutMs = 60_000;
const rebuiltMessage = 'state.db was quarantined and is rebuilt from the log';

/** Rejects with the errors of the log, and with an Error that names the next step where this log must not be folded. */
export async function openState(path: string, log: ControlLog, logger: Logger): Promise<OpenedState> {
  const genesis = await readGenesis(log).catch(refuse);
  let opened = openOrRebuild(path);
  if (genesis && succeeds(genesis, opened.snapshot)) {
    opened.snapshot.close();
    opened = openOrRebuild(path, genesis.log);
  }
  const { snapshot, rebuiltBecause } = opened;
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
  const checkWhole = () => {
    const needed = wholeFrom(genesis);
    if (snapshot.seq >= needed) return;
    throw new Error(
      `the restore of this log was not finished: it holds ${snapshot.seq} of ${needed} commits; ` +
        'remove the log and restore it again, see docs/operate.md',
    );
  };
  return { snapshot, checkWhole };
}

/** A log that lost commits needs an operator. */
function refuse(error: unknown): never {
  if (!(error instanceof LogTruncated || error instanceof LogReplaced)) throw error;
  const next =
    'restore the log from its last backup or create a new one from a snapshot, see docs/operate.md; only if the log is complete and state.db is wrong, move state.db away';
  throw new Error(`${error.message}; ${next}`, { cause: error });
}

/** Waits until the log is folded. Times out only if no commit is folded meanwhile, because a first start on a long log takes long. */
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
