/**
 * The gateway's end of the control log: opens the snapshot, follows the log, and decides whether keys may be accepted. The
 * folder `data-plane/snapshot` promises that a quarantined snapshot never answers, and that an old one answers only if the
 * stale policy allows it. It must never fold any log but the one to which the snapshot belongs.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import {
  type GatewayMembers,
  gatewayMemberNames,
  reportedMembers,
} from '../../schemas/records/gateway-members.ts';
import type { StalePolicy } from '../../schemas/records/status.ts';
import {
  type ControlLog,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
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
import {
  type ReportBody,
  StatusPublisher,
  type TrafficSource,
} from '../../shared/status/status-publisher.ts';
import { fetchSnapshot } from './fetch-snapshot.ts';
import { type SnapshotIntervals, snapshotIntervals } from './intervals.ts';
import { SnapshotSupervisor, type SupervisorOptions } from './supervisor.ts';

export interface FollowSettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly whenStale: StalePolicy;
  /** Base URLs of control planes, from which a new gateway may download a snapshot. */
  readonly controlPlanes: readonly string[];
  readonly gatewayToken: string;
  readonly trusted?: TrustedSigners | undefined;
  readonly metrics: SupervisorOptions['metrics'] & { readonly registry: Registry };
  readonly logger: Logger;
  readonly intervals?: Partial<SnapshotIntervals> | undefined;
}

export interface GatewayState {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  /** Reads from the snapshot in use at its latest position. */
  readonly lookup: Lookup;
  /** Whether keys must be refused now. Computed at each call, so that a process that was suspended refuses keys at once. */
  fenced(): boolean;
  /** Waits at most two seconds for a new proof of freshness. Returns undefined unless the wall clock was set forward. */
  awaitFreshProof(): Promise<void> | undefined;
  checks(): Check[];
  /** Publishes the gateway's first report. Control planes must know the gateway before it accepts keys. */
  announce(traffic: TrafficSource): Promise<void>;
}

/** Members of a gateway's report that are about the snapshot. The code that serves requests adds the others. */
export type StateMembers = Pick<GatewayMembers, 'stalePolicy' | 'halted' | 'passedOver' | 'change'>;

/** Maximum time in ms that startup waits until all existing records of the log are folded. */
const catchUpTimeoutMs = 600_000;
const firstProofTimeoutMs = 5000;
/** Maximum time in ms to wait for a new proof of freshness, equal to the maximum wait for room in the limits. */
const proofTimeoutMs = 2000;
/** Maximum time in ms that startup waits for its first report to reach the log. Startup must not depend on the log. */
const announceTimeoutMs = 5000;

/** Opens the snapshot and follows the log, which may be opened again later. `publisher` must not have been started. */
export async function followLog(
  settings: FollowSettings,
  log: ControlLog,
  publisher: StatusPublisher,
  closers: Closers,
): Promise<GatewayState> {
  const { whenStale } = settings;
  const snapshot = await openSnapshot(settings, log);
  const supervisor = new SnapshotSupervisor({ ...settings, log, snapshot, publisher });
  closers.add(() => supervisor.close());
  await catchUp(supervisor.replicator, settings.logger);
  return {
    get snapshot() {
      return supervisor.snapshot;
    },
    get replicator() {
      return supervisor.replicator;
    },
    lookup: supervisor.lookup,
    fenced: () => {
      if (supervisor.fault?.state === 'quarantined') return true;
      if (whenStale === 'serve') return false;
      const state = supervisor.replicator.freshness.state();
      return state === 'unproven' || state === 'fenced';
    },
    awaitFreshProof: () => {
      const { replicator, fault } = supervisor;
      const isWorthWaiting =
        replicator.freshness.isFencedByWallClock &&
        replicator.reachable &&
        fault === undefined &&
        whenStale === 'fence';
      return isWorthWaiting ? replicator.provenAgain(proofTimeoutMs) : undefined;
    },
    checks: () => checks(supervisor, whenStale),
    announce: async (traffic) => {
      const start = countStart(settings.dataDir);
      publisher.start({ report: () => buildReport(supervisor, settings, start), traffic });
      closers.add(() => publisher.stop());
      // A revocation waits for all gateways that are known, so this one must be known before it accepts keys.
      await publisher.acknowledged(announceTimeoutMs);
      if (log.isReplicated === true) await firstProof(supervisor.replicator);
      supervisor.startVerification();
    },
  };
}

/** Opens the status topic. Nothing is published until the gateway is announced. */
export async function openPublisher(
  { logUrl, gatewayToken, logger, metrics }: FollowSettings,
  closers: Closers,
): Promise<StatusPublisher> {
  const log = await openStatusLog(logUrl);
  closers.add(() => log.close());
  const publisher = new StatusPublisher({ log, logger, mac: new StatusMac(gatewayToken) });
  countRefusedStatus(metrics.registry, publisher.refused);
  return publisher;
}

/** Opens the snapshot on disk, or downloads one. It is compared with the log before folding, so a wrong log does no harm. */
async function openSnapshot(settings: FollowSettings, log: ControlLog): Promise<Snapshot> {
  const { dataDir, logger, controlPlanes, gatewayToken: token, intervals } = settings;
  const { downloadSpreadMs: spreadMs } = { ...snapshotIntervals, ...intervals };
  const path = join(dataDir, 'state.db');
  const logId = (await readLogId(log).catch((error: unknown) => withoutLog(error, logger))) ?? undefined;
  const source = { path, controlPlanes, token, log, logId, logger, spreadMs };
  const fetched = !existsSync(path) && (await fetchSnapshot(source));
  if (fetched) logger.info('started from the snapshot of a control plane');
  const { snapshot, rebuiltBecause } = openOrRebuild(path);
  if (rebuiltBecause !== undefined)
    logger.warn({ because: rebuiltBecause }, 'state.db was quarantined and is rebuilt');
  return snapshot;
}

function withoutLog(error: unknown, logger: Logger): undefined {
  const known =
    error instanceof LogUnavailable || error instanceof LogReplaced || error instanceof LogTruncated;
  if (!known) throw error;
  logger.warn({ reason: error.message }, 'the control log cannot be read; starting from the state on disk');
}

/** Folds all that was in the log at startup. If that fails, the freshness rules decide which requests are answered. */
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

/** Waits for the first proof of freshness. If none arrives, the freshness rules decide which requests are answered. */
async function firstProof({ freshness }: Replicator): Promise<void> {
  const until = performance.now() + firstProofTimeoutMs;
  while (!freshness.proven && performance.now() < until) await sleep(20);
}

function buildReport(
  supervisor: SnapshotSupervisor,
  { name, whenStale }: FollowSettings,
  folder: FolderStart,
): ReportBody {
  const { snapshot, replicator, fault } = supervisor;
  const age = replicator.freshness.ageSeconds();
  const reason = fault?.reason.slice(0, 500);
  const members: StateMembers = {
    stalePolicy: whenStale,
    halted: reason,
    passedOver: snapshot.passedOver?.slice(0, 300),
    change: supervisor.lookup.overlaid()?.change,
  };
  return {
    v: 1,
    name,
    kind: 'gateway',
    folder,
    at: new Date(wallClockMs()).toISOString(),
    log: snapshot.log,
    applied: snapshot.seq,
    digest: snapshot.digest(),
    foldVersion,
    freshSeconds: Number.isFinite(age) ? age : null,
    ...reportedMembers(gatewayMemberNames, members),
    ...(reason !== undefined && { diverged: fault?.state === 'quarantined' }),
  };
}

function checks(supervisor: SnapshotSupervisor, whenStale: StalePolicy): Check[] {
  const { snapshot, fault } = supervisor;
  const { freshness, reachable } = supervisor.replicator;
  const age = freshness.ageSeconds();
  const state = freshness.state();
  const isFresh = state === 'ready' || state === 'lagging';
  const isServing = whenStale === 'serve' && snapshot.seq > 0;
  const isQuarantined = fault?.state === 'quarantined';
  const { writeFault } = supervisor.log;
  const reach = reachable ? 'reachable' : 'cannot be reached';
  const unwritten = writeFault === undefined ? '' : `, but nothing can be written to it: ${writeFault}`;
  const logDetail = fault && !isQuarantined ? fault.reason : `${reach}${unwritten}`;
  return [
    { name: 'log', ok: true, detail: logDetail },
    { name: 'fold', ok: snapshot.seq > 0, detail: `at ${snapshot.seq}, digest ${snapshot.digest()}` },
    {
      name: 'fresh',
      ok: isFresh || isServing,
      detail: `${isServing && !isFresh ? 'stale, but still served' : state}, ${Number.isFinite(age) ? `${age.toFixed(1)} s` : 'not proven yet'}`,
    },
    {
      name: 'snapshot',
      ok: !isQuarantined,
      detail: isQuarantined ? `quarantined and being rebuilt: ${fault.reason}` : 'trusted',
    },
  ];
}
