/**
 * The state that a control plane starts from: what is on its disk, which must be of the log that stands there now. A log
 * that stands in the place of ours is refused, unless it was begun to take that place, and then only once it is whole.
 */
import { type ControlLog, LogReplaced, LogTruncated } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { checkIdentity, readGenesis, succeeds, wholeFrom } from '../../shared/snapshot/log-identity.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';

export interface OpenedState {
  readonly snapshot: Snapshot;
  /** Throws where the log does not hold a whole state yet; asked once the fold has reached its end. */
  checkWhole(): void;
}

/** Rejects with what a log rejects with, and with an Error that says what to do where this log is not to be folded. */
export async function openState(path: string, log: ControlLog, logger: Logger): Promise<OpenedState> {
  const genesis = await readGenesis(log).catch(refuse);
  let opened = openOrRebuild(path);
  if (genesis && succeeds(genesis, opened.snapshot)) {
    opened.snapshot.close();
    opened = openOrRebuild(path, genesis.log);
  }
  const { snapshot, rebuiltBecause } = opened;
  if (rebuiltBecause !== undefined)
    logger.warn({ because: rebuiltBecause }, 'state.db was put aside and is rebuilt from the log');
  try {
    await checkIdentity(log, snapshot);
  } catch (error) {
    snapshot.close();
    refuse(error);
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

/** A log that lost commits is for a person to mend. */
function refuse(error: unknown): never {
  if (!(error instanceof LogTruncated || error instanceof LogReplaced)) throw error;
  const next = 'put the log back from its last copy or begin a new one from a snapshot, see docs/operate.md';
  throw new Error(`${error.message}; ${next}`, { cause: error });
}
