/**
 * Builds a new snapshot next to the one in use, from a control plane's copy or from the beginning of the log. The new
 * snapshot may replace the other once it has folded the whole log and is not older.
 */
import { renameSync, rmSync } from 'node:fs';
import { type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Freshness } from '../../shared/snapshot/freshness.ts';
import { readLogId } from '../../shared/snapshot/log-identity.ts';
import { openOrRebuild, quarantineFile } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { fetchSnapshot } from './fetch-snapshot.ts';

export interface RebuildOptions {
  /** Path of the snapshot in use. */
  readonly path: string;
  readonly log: ControlLog;
  /** Id of the log to which the snapshot in use belongs. */
  readonly logId: string | null;
  /** Position of the snapshot in use. This gateway has confirmed that it applies everything up to this position. */
  readonly servedSeq: number;
  readonly controlPlanes: readonly string[];
  readonly token: string | undefined;
  readonly spreadMs?: number;
  readonly trusted: TrustedSigners | undefined;
  readonly mayProve: () => boolean;
  readonly logger: Logger;
}

export interface RebuiltSnapshot {
  readonly snapshot: Snapshot;
  readonly freshness: Freshness;
}

/** Maximum time in ms to fold the whole log. */
const catchUpTimeoutMs = 600_000;

/** Builds a new snapshot. Rejects if no trustworthy snapshot can be built. The caller then tries again later. */
export async function rebuildBeside(options: RebuildOptions): Promise<RebuiltSnapshot> {
  const { path, log, trusted, logger, mayProve, servedSeq } = options;
  const next = `${path}.next`;
  for (const suffix of ['', '-wal', '-shm']) rmSync(next + suffix, { force: true });
  const found = await readLogId(log).catch(nullIfUnavailable);
  const logId = found ?? options.logId ?? undefined;
  const fetched = await fetchSnapshot({ ...options, path: next, logId });
  const { snapshot } = openOrRebuild(next, logId);
  const replicator = new Replicator({ snapshot, log, trusted, mayProve });
  replicator.start();
  try {
    // If the log is unreachable, use the downloaded snapshot as it is. The freshness rules decide whether it may answer.
    await replicator.caughtUp(catchUpTimeoutMs).catch((error: unknown) => {
      if (!fetched || !(error instanceof LogUnavailable)) throw error;
    });
    if (snapshot.seq === 0) throw new Error('the log does not contain a state yet');
    if (snapshot.log === options.logId && snapshot.seq < servedSeq)
      throw new Error(
        `the log ends at position ${snapshot.seq}, but this gateway has served position ${servedSeq}`,
      );
    if (snapshot.divergedAt !== null) overrideCheckpoint(snapshot, fetched, logger);
    return { snapshot, freshness: replicator.freshness };
  } catch (error) {
    await replicator.stop();
    snapshot.close();
    throw error;
  } finally {
    await replicator.stop();
  }
}

function nullIfUnavailable(error: unknown): null {
  if (error instanceof LogUnavailable) return null;
  throw error;
}

/** Ignores a differing checkpoint if this build folded the log from its first record. Throws for a downloaded snapshot. */
function overrideCheckpoint(snapshot: Snapshot, isGiven: boolean, logger: Logger): void {
  if (isGiven) throw new Error(`the snapshot differs from the checkpoint at ${snapshot.divergedAt}`);
  logger.error(
    { checkpoint: snapshot.divergedAt },
    'a checkpoint differs from a replay of the log: its writer is wrong, or runs another build',
  );
  snapshot.overrideCheckpoint();
}

/** Replaces the snapshot in use. Its old file is renamed to `.aside`. Both must be closed, so no one can read meanwhile. */
export function swapSnapshot(path: string, logId: string | undefined): Snapshot {
  quarantineFile(path);
  renameSync(`${path}.next`, path);
  return openOrRebuild(path, logId).snapshot;
}
