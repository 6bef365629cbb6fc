/**
 * A gateway's side of an event: open the snapshot, follow the log, prove freshness and report status. Says whether keys may
 * be accepted now (design: Freshness); what is done about a snapshot or a log that cannot be trusted is the follower's.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import type { StalePolicy } from '../../schemas/status.ts';
import {
  type ControlLog,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import { countStart, type FolderStart } from '../../shared/runtime/folder-start.ts';
import type { Check } from '../../shared/runtime/health-server.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { readLogId } from '../../shared/snapshot/log-identity.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { countRefusedStatus } from '../../shared/status/status-metrics.ts';
import { type ReportBody, StatusPublisher } from '../../shared/status/status-publisher.ts';
import { fetchSnapshot } from './fetch-snapshot.ts';
import { Follower, type FollowerOptions } from './supervisor.ts';

export interface FollowSettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly whenStale: StalePolicy;
  /** Offer a snapshot to start from. */
  readonly controlPlanes: readonly string[];
  readonly gatewayToken: string;
  readonly trusted?: TrustedSigners | undefined;
  readonly metrics: FollowerOptions['metrics'] & { readonly registry: Registry };
  readonly logger: Logger;
}

export interface GatewayState {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  /** What requests read: always at the position of the snapshot in use. */
  readonly lookup: Lookup;
  /** May no key be accepted now? Worked out anew at each call, so that a thawed process refuses at once. */
  fenced(): boolean;
  checks(): Check[];
}

/** How long a start waits for the fold to reach the end that the log had then. */
const catchUpTimeoutMs = 600_000;
const firstProofTimeoutMs = 5000;
/** How long a start waits until its first report is on the log; a gateway has to start without the log, too. */
const announceTimeoutMs = 5000;

/** Takes the log over: it may be opened anew while the gateway runs. */
export async function followLog(
  settings: FollowSettings,
  log: ControlLog,
  closers: Closers,
): Promise<GatewayState> {
  const { logger, whenStale } = settings;
  const snapshot = await openSnapshot(settings, log);
  const status = await openStatusLog(settings.logUrl);
  closers.add(() => status.close());
  let publisher: StatusPublisher | undefined;
  const follower: Follower = new Follower({
    ...settings,
    log,
    snapshot,
    // On several brokers an end alone proves little: this gateway may be cut off together with an old leader.
    mayProve: () => follower.log.isReplicated !== true || publisher?.isHeard === true,
    onChange: () => publisher?.publish(),
  });
  closers.add(() => follower.close());
  await catchUp(follower.replicator, logger);
  const start = countStart(settings.dataDir);
  publisher = new StatusPublisher({
    ...{ log: status, logger, mac: new StatusMac(settings.gatewayToken) },
    report: () => reportOf(follower, settings, start),
  });
  closers.add(() => publisher?.stop());
  countRefusedStatus(settings.metrics.registry, publisher.refused);
  // Who waits for a revocation has to know of every gateway that accepts keys.
  await publisher.acknowledged(announceTimeoutMs);
  if (log.isReplicated === true) await firstProof(follower.replicator);
  follower.watch();
  return {
    get snapshot() {
      return follower.snapshot;
    },
    get replicator() {
      return follower.replicator;
    },
    lookup: follower.lookup,
    fenced: () => {
      if (follower.trouble?.kind === 'quarantined') return true;
      if (whenStale === 'serve') return false;
      const state = follower.replicator.freshness.state();
      return state === 'unproven' || state === 'fenced';
    },
    checks: () => checks(follower, whenStale),
  };
}

/**
 * What is on disk, whichever log it came from: the follower compares it with the log before it folds on, and does not give
 * up a good state for a log that merely stands in its place. Where there is nothing, a control plane's snapshot.
 */
async function openSnapshot(settings: FollowSettings, log: ControlLog): Promise<Snapshot> {
  const { dataDir, logger, controlPlanes, gatewayToken: token } = settings;
  const path = join(dataDir, 'state.db');
  const logId = (await readLogId(log).catch((error: unknown) => withoutLog(error, logger))) ?? undefined;
  const fetched =
    !existsSync(path) && (await fetchSnapshot({ path, controlPlanes, token, log, logId, logger }));
  if (fetched) logger.info('started from the snapshot of a control plane');
  const { snapshot, rebuiltBecause } = openOrRebuild(path);
  if (rebuiltBecause !== undefined)
    logger.warn({ because: rebuiltBecause }, 'state.db was put aside and is rebuilt');
  return snapshot;
}

function withoutLog(error: unknown, logger: Logger): undefined {
  const known =
    error instanceof LogUnavailable || error instanceof LogReplaced || error instanceof LogTruncated;
  if (!known) throw error;
  logger.warn({ reason: error.message }, 'the control log cannot be read; starting from what is on disk');
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
  while (!freshness.proven && performance.now() < until) await sleep(20);
}

function reportOf(follower: Follower, { name, whenStale }: FollowSettings, folder: FolderStart): ReportBody {
  const { snapshot, replicator, trouble } = follower;
  const age = replicator.freshness.ageSeconds();
  const reason = trouble?.reason.slice(0, 500);
  return {
    v: 1,
    name,
    kind: 'gateway',
    folder,
    at: new Date().toISOString(),
    log: snapshot.log,
    applied: snapshot.seq,
    digest: snapshot.digest(),
    foldVersion,
    freshSeconds: Number.isFinite(age) ? age : null,
    stalePolicy: whenStale,
    ...(reason !== undefined && { halted: reason, diverged: trouble?.kind === 'quarantined' }),
  };
}

function checks(follower: Follower, whenStale: StalePolicy): Check[] {
  const { snapshot, trouble } = follower;
  const { freshness, reachable } = follower.replicator;
  const age = freshness.ageSeconds();
  const state = freshness.state();
  const isFresh = state === 'ready' || state === 'lagging';
  const isServing = whenStale === 'serve' && snapshot.seq > 0;
  const isQuarantined = trouble?.kind === 'quarantined';
  const logDetail =
    trouble && !isQuarantined ? trouble.reason : reachable ? 'reachable' : 'cannot be reached';
  return [
    { name: 'log', ok: true, detail: logDetail },
    { name: 'fold', ok: snapshot.seq > 0, detail: `at ${snapshot.seq}, digest ${snapshot.digest()}` },
    {
      name: 'fresh',
      ok: isFresh || isServing,
      detail: `${state}, ${Number.isFinite(age) ? `${age.toFixed(1)} s` : 'not proven yet'}`,
    },
    {
      name: 'snapshot',
      ok: !isQuarantined,
      detail: isQuarantined ? `quarantined and being rebuilt: ${trouble.reason}` : 'trusted',
    },
  ];
}
