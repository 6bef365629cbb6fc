/** Opens the folded state of a replica, and the writer of its commands. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Commit } from '../schemas/events/commit.ts';
import { checkpointAuthor, replicaAuthor } from '../schemas/shapes.ts';
import type { ControlLog } from '../shared/log/core/control-log.ts';
import type { Signer } from '../shared/log/core/signing.ts';
import type { TrustedSigners } from '../shared/log/core/trust.ts';
import type { FolderStart } from '../shared/runtime/folder-start.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { foldVersion } from '../shared/snapshot/fold.ts';
import { FoldMetrics } from '../shared/snapshot/fold-metrics.ts';
import { Replicator } from '../shared/snapshot/replicator.ts';
import type { Snapshot } from '../shared/snapshot/snapshot.ts';
import { CommandWriter, createLog } from './commands/command-writer.ts';
import { checkSigner } from './commands/log-signing.ts';
import type { FleetGauges } from './gateways/fleet-gauges.ts';
import type { OpenedFleet } from './gateways/open-fleet.ts';
import { signingView } from './gateways/signing-view.ts';
import type { ControlPlaneSettings } from './settings.ts';
import { foldedToEnd, openState } from './state/open-state.ts';

export interface ReplicaParts extends OpenedFleet {
  readonly signer: Signer | undefined;
  readonly trusted: TrustedSigners | undefined;
  readonly start: FolderStart;
  readonly gauges: FleetGauges;
}

export interface Replica extends ReplicaParts {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly writer: CommandWriter;
  readonly listeners: Set<(commits: readonly Commit[]) => void>;
  readonly metrics: FoldMetrics;
}

/** Number of commits between two checkpoints. A checkpoint in the log contains digests of the whole state. */
const commitsPerCheckpoint = 1000;

/** Folds the log to its end and opens the command writer. If the log is empty, creates it first. */
export async function openReplica(
  settings: ControlPlaneSettings,
  log: ControlLog,
  parts: ReplicaParts,
): Promise<Replica> {
  const { logger } = settings;
  const { signer, trusted, board, gauges } = parts;
  const snapshot = await openState(join(settings.dataDir, 'state.db'), log, logger);
  const listeners: Replica['listeners'] = new Set();
  const metrics = new FoldMetrics();
  const replicator: Replicator = new Replicator({
    snapshot,
    log,
    trusted,
    waitsForDisk: true,
    onCommits: (commits, seconds) => {
      metrics.folded(commits, seconds, replicator.freshness.proven);
      for (const listener of listeners) listener(commits);
    },
    onFault: (error) => logger.fatal({ err: error }, 'the fold has stopped; see docs/recover.md'),
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the control log'),
  });
  try {
    replicator.start();
    await createLog(
      { snapshot, replicator, log, signer, trusted },
      `log-${randomUUID()}`,
      replicaAuthor(settings.name),
    );
    await foldedToEnd(replicator, snapshot);
    checkSigner(snapshot.head.signers, signer, settings.allowUnsigned);
    const readers = () => board.readers();
    const signing = () => signingView({ replica: settings.name, snapshot, signer, board });
    const now = () => gauges.logNow();
    const writer = new CommandWriter({ snapshot, replicator, log, signer, readers, signing, now });
    metrics.watch(() => ({ snapshot, replicator }));
    return { ...parts, snapshot, replicator, writer, listeners, metrics };
  } catch (error) {
    await replicator.stop();
    snapshot.close();
    throw error;
  }
}

/**
 * After each fold, records the digest for comparison with other replicas. Every 1000 commits, writes a checkpoint to the log.
 */
export function watchCommits(replica: Replica, logger: Logger): void {
  const { snapshot, writer, board } = replica;
  let checkpointAt = snapshot.seq + commitsPerCheckpoint;
  replica.listeners.add(() => {
    board.addOwnDigest(snapshot.seq, snapshot.digest());
    if (snapshot.seq < checkpointAt) return;
    checkpointAt = snapshot.seq + commitsPerCheckpoint;
    const data = () => ({ foldVersion, digests: snapshot.digests() });
    writer
      .write(`checkpoint-${randomUUID()}`, checkpointAuthor, () => [{ type: 'checkpoint', data: data() }])
      .catch((error: unknown) => logger.warn({ err: error }, 'checkpoint not written'));
  });
  board.addOwnDigest(snapshot.seq, snapshot.digest());
}
