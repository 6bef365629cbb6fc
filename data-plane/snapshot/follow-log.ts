/**
 * A gateway's side of an event: open the snapshot, follow the log, prove freshness, report status, and rebuild where the
 * snapshot cannot be trusted. Says whether keys may be accepted now (design: Freshness).
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { StalePolicy } from '../../schemas/status.ts';
import type { ControlLog } from '../../shared/log/control-log.ts';
import { LogUnavailable } from '../../shared/log/control-log.ts';
import { verifyInBackground } from '../../shared/process/background-verify.ts';
import type { Closers } from '../../shared/process/closers.ts';
import type { Check } from '../../shared/process/health-server.ts';
import type { Logger } from '../../shared/process/logger.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { readLogId } from '../../shared/snapshot/log-identity.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { SnapshotReader } from '../../shared/snapshot/reader.ts';
import { delay, Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusPublisher } from '../../shared/status/status-publisher.ts';
import { fetchSnapshot } from './fetch-snapshot.ts';

export interface FollowSettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly whenStale: StalePolicy;
  /** Offer a snapshot to start from. */
  readonly controlPlanes: readonly string[];
  readonly gatewayToken?: string | undefined;
  readonly logger: Logger;
}

export interface GatewayState {
  readonly snapshot: Snapshot;
  /** What requests read: always at the position of the snapshot. */
  readonly reader: SnapshotReader;
  readonly replicator: Replicator;
  /** May no key be accepted now? Worked out anew at each call, so that a thawed process refuses at once. */
  fenced(): boolean;
  checks(): Check[];
}

/** How long a start waits for the fold to reach the end that the log had then. */
const catchUpTimeoutMs = 600_000;
const firstProofTimeoutMs = 5000;

export async function followLog(
  settings: FollowSettings,
  log: ControlLog,
  closers: Closers,
): Promise<GatewayState> {
  const { logger, name, whenStale } = settings;
  const snapshot = await openSnapshot(settings, log);
  closers.add(() => snapshot.close());
  const reader = new SnapshotReader(snapshot.path);
  closers.add(() => reader.close());
  let quarantined: string | undefined;
  const quarantine = (reason: string): void => {
    quarantined ??= reason;
    logger.fatal({ reason }, 'this snapshot is quarantined; no key is accepted from it');
  };
  const status = await openStatusLog(settings.logUrl);
  closers.add(() => status.close());
  let publisher: StatusPublisher | undefined;
  const replicator = new Replicator({
    snapshot,
    log,
    onCommits: () => {
      reader.refresh();
      if (snapshot.divergedAt !== null)
        quarantine(`its digest differs from the checkpoint at ${snapshot.divergedAt}`);
      publisher?.publish();
    },
    // On several brokers an end alone proves little: this gateway may be cut off together with an old leader.
    mayProve: () => log.isReplicated !== true || publisher?.isHeard === true,
    onFault: (error) => quarantine(error.message),
    onReach: (reachable, error) => logger.warn({ reachable, reason: error?.message }, 'control log'),
  });
  replicator.start();
  closers.add(() => replicator.stop());
  await catchUp(replicator, logger);
  publisher = new StatusPublisher(status, () => {
    const age = replicator.freshness.ageSeconds();
    return {
      v: 1,
      name,
      kind: 'gateway',
      at: new Date().toISOString(),
      log: snapshot.log,
      applied: snapshot.seq,
      digest: snapshot.digest(),
      foldVersion,
      freshSeconds: Number.isFinite(age) ? age : null,
      stalePolicy: whenStale,
      ...(quarantined !== undefined && { halted: quarantined }),
    };
  });
  closers.add(() => publisher?.stop());
  if (log.isReplicated === true) await firstProof(replicator);
  watchRows(snapshot, quarantine, closers);
  const isFenced = (): boolean => {
    if (quarantined !== undefined) return true;
    if (whenStale === 'serve') return false;
    const state = replicator.freshness.state();
    return state === 'unproven' || state === 'fenced';
  };
  return {
    snapshot,
    reader,
    replicator,
    fenced: isFenced,
    checks: () => checks(replicator, snapshot, whenStale, quarantined),
  };
}

/** The id of the log decides which snapshot can be used; where the log is away, the one on disk will have to do. */
async function openSnapshot(settings: FollowSettings, log: ControlLog): Promise<Snapshot> {
  const { dataDir, logger, controlPlanes, gatewayToken: token } = settings;
  const path = join(dataDir, 'state.db');
  let logId: string | undefined;
  try {
    logId = (await readLogId(log)) ?? undefined;
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    logger.warn(
      { reason: error.message },
      'the control log cannot be reached; starting from what is on disk',
    );
  }
  const fetched =
    !existsSync(path) && (await fetchSnapshot({ path, controlPlanes, token, log: logId, logger }));
  if (fetched) logger.info('started from the snapshot of a control plane');
  const { snapshot, rebuiltBecause } = openOrRebuild(path, logId);
  if (rebuiltBecause !== undefined)
    logger.warn({ because: rebuiltBecause }, 'state.db was put aside and is rebuilt');
  return snapshot;
}

/** Folds to the end seen at start; without a log to ask, the freshness rules decide what may be answered. */
async function catchUp(replicator: Replicator, logger: Logger): Promise<void> {
  try {
    await replicator.caughtUp(catchUpTimeoutMs);
  } catch (error) {
    logger.warn(
      { reason: error instanceof Error ? error.message : String(error) },
      'not caught up with the log',
    );
  }
}

/** What was folded may be answered from once a proof stands; where none comes, the freshness rules decide. */
async function firstProof({ freshness }: Replicator): Promise<void> {
  const until = performance.now() + firstProofTimeoutMs;
  while (!freshness.proven && performance.now() < until) await delay(20, new AbortController().signal);
}

function watchRows(snapshot: Snapshot, quarantine: (reason: string) => void, closers: Closers): void {
  const stop = new AbortController();
  const verifying = verifyInBackground(snapshot, stop.signal).then(
    (verdict) => {
      if (verdict && verdict.differing.length > 0)
        quarantine(`rows of ${verdict.differing.join(', ')} do not add up to their digest`);
    },
    (error: unknown) =>
      quarantine(`its rows cannot be read: ${error instanceof Error ? error.message : String(error)}`),
  );
  closers.add(async () => {
    stop.abort();
    await verifying;
  });
}

function checks(
  replicator: Replicator,
  snapshot: Snapshot,
  whenStale: StalePolicy,
  quarantined: string | undefined,
): Check[] {
  const { freshness } = replicator;
  const age = freshness.ageSeconds();
  const state = freshness.state();
  const isFresh = state === 'ready' || state === 'lagging';
  const isServing = whenStale === 'serve' && snapshot.seq > 0;
  return [
    { name: 'log', ok: true, detail: replicator.reachable ? 'reachable' : 'cannot be reached' },
    { name: 'fold', ok: snapshot.seq > 0, detail: `at ${snapshot.seq}, digest ${snapshot.digest()}` },
    {
      name: 'fresh',
      ok: isFresh || isServing,
      detail: `${state}, ${Number.isFinite(age) ? `${age.toFixed(1)} s` : 'not proven yet'}`,
    },
    { name: 'snapshot', ok: quarantined === undefined, detail: quarantined ?? 'trusted' },
  ];
}
