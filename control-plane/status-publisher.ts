/**
 * Publishes a replica's reports to the fleet. They contain the position of its fold, its signer, and the nodes of its agents.
 */
import { computeFingerprint, type Signer } from '../shared/log/core/signing.ts';
import { wallClockMs } from '../shared/runtime/clock.ts';
import type { FolderStart } from '../shared/runtime/folder-start.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { foldVersion } from '../shared/snapshot/fold.ts';
import type { FoldMetrics } from '../shared/snapshot/fold-metrics.ts';
import type { Replicator } from '../shared/snapshot/replicator.ts';
import type { Snapshot } from '../shared/snapshot/snapshot.ts';
import { countIgnoredStatus, countRefusedStatus } from '../shared/status/status-metrics.ts';
import { type ReportBody, StatusPublisher } from '../shared/status/status-publisher.ts';
import type { OpenedFleet } from './gateways/open-fleet.ts';

export interface ReportedState extends Pick<OpenedFleet, 'statusLog' | 'mac' | 'board'> {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly signer: Signer | undefined;
  readonly start: FolderStart;
  readonly metrics: FoldMetrics;
}

const haltLengthMax = 500;

/** Returns the reason why this replica's fold has stopped for good. Other replicas then claim its nodes. */
function describeHalt({ fault }: Replicator): string | undefined {
  return fault?.message.slice(0, haltLengthMax);
}

export function statusPublisher(
  { name, logger }: { readonly name: string; readonly logger: Logger },
  { snapshot, replicator, signer, statusLog, mac, start, board, metrics }: ReportedState,
): StatusPublisher {
  const report = (): ReportBody => {
    const age = replicator.freshness.ageSeconds();
    const halted = describeHalt(replicator);
    return {
      v: 1,
      name,
      kind: 'control-plane',
      folder: start,
      at: new Date(wallClockMs()).toISOString(),
      log: snapshot.log,
      applied: snapshot.seq,
      digest: snapshot.digest(),
      foldVersion,
      freshSeconds: Number.isFinite(age) ? age : null,
      ...(halted !== undefined && { halted }),
      ...(signer && { signer: computeFingerprint(signer.publicKey) }),
    };
  };
  const publisher = new StatusPublisher({ log: statusLog, mac, logger });
  publisher.start({ report });
  countRefusedStatus(metrics.registry, publisher.refused);
  countIgnoredStatus(metrics.registry, board.ignored);
  return publisher;
}
