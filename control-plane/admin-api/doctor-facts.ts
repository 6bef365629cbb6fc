/** Collects the facts for `doctor` that this replica knows. */
import { statfs } from 'node:fs/promises';
import { dayMs, hourMs } from '../../schemas/durations.ts';
import { countersTopic, gaugesTopic } from '../../schemas/records/limits.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { usageTopic } from '../../schemas/records/usage.ts';
import type { ControlLog, TopicReading } from '../../shared/log/core/control-log.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import { computeFingerprint, type Signer } from '../../shared/log/core/signing.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { all } from '../../shared/runtime/statements.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import { servedModels } from '../../shared/snapshot/routes.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import { maySign } from '../commands/log-signing.ts';
import type { DoctorFacts } from '../doctor/facts.ts';
import { askDecision } from '../gateways/ask-decisions.ts';
import { splitSides } from '../gateways/change-figures.ts';
import { type SeenReport, type StatusBoard, staleSeconds } from '../gateways/status-board.ts';
import type { DoctorRows } from '../history/doctor-rows.ts';
import type { PastReader } from '../history/past.ts';
import { findPool, listStacks } from '../state/capacity.ts';
import { findAnonymous, listModels, listOverweight, listTiers } from '../state/catalog.ts';
import { findOpenChange, openView, withdrawnSince } from '../state/changes.ts';
import { listMembers, listOrganisations } from '../state/tenants.ts';
import { withFigures } from './change-routes.ts';
import type { AdminContext } from './context.ts';

export type DoctorContext = Pick<
  AdminContext,
  | 'replica'
  | 'snapshot'
  | 'replicator'
  | 'log'
  | 'signer'
  | 'past'
  | 'board'
  | 'traffic'
  | 'live'
  | 'usage'
  | 'counters'
  | 'gauges'
  | 'usageCounts'
  | 'gatewayAgent'
  | 'usageFile'
  | 'listener'
  | 'dataDir'
  | 'gatewayToken'
  | 'previousGatewayToken'
>;

export interface ReplicaView {
  readonly replica: string;
  readonly log: Pick<ControlLog, 'readings' | 'writeFault'>;
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly signer: Signer | undefined;
  readonly board: StatusBoard;
}

/** Returns the facts for `doctor` that are available at once: those about the log and the processes. */
export function processFacts(view: ReplicaView): DoctorFacts {
  return {
    log: logFacts(view),
    // Until all reports have been read, a missing report proves nothing.
    ...(view.board.isComplete && {
      controlPlanes: controlPlaneFacts(view),
      gateways: gatewayFacts(view),
    }),
  };
}

function logFacts({
  snapshot,
  replicator,
  log,
  board,
  replica,
}: ReplicaView): NonNullable<DoctorFacts['log']> {
  const age = replicator.freshness.ageSeconds();
  const statusFault = findStatusFault(board, replica);
  return {
    reachable: replicator.reachable,
    position: snapshot.seq,
    fault: snapshot.halt?.reason ?? replicator.fault?.message,
    freshSeconds: Number.isFinite(age) ? age : null,
    skipped: snapshot.skipped,
    isSigned: snapshot.head.signers.length > 0,
    divergedAt: snapshot.divergedAt ?? undefined,
    topics: topicFacts(log.readings?.() ?? [], statusFault),
    writeFault: log.writeFault,
    hasReports: statusFault === undefined,
  };
}

/**
 * Returns why silence on the status topic proves nothing: it cannot be read, or this replica does not see its own reports.
 */
function findStatusFault(board: StatusBoard, replica: string): TopicReading['failing'] {
  const seconds = Math.min((performance.now() - board.readBackMs(replica)) / 1000, process.uptime());
  if (board.fault !== undefined) return { seconds, reason: board.fault, isReached: false };
  if (seconds < staleSeconds) return undefined;
  return { seconds, reason: 'this replica does not read back the reports that it writes', isReached: true };
}

/** Adds a failure of the status topic that only the status board knows, for example if the log has no brokers. */
function topicFacts(readings: readonly TopicReading[], failing: TopicReading['failing']): TopicReading[] {
  const isKnown = readings.some(({ topic, failing }) => topic === statusTopic && failing !== undefined);
  if (failing === undefined || isKnown) return [...readings];
  const others = readings.filter(({ topic }) => topic !== statusTopic);
  return [...others, { topic: statusTopic, skipped: 0, failing }];
}

function controlPlaneFacts(view: ReplicaView): NonNullable<DoctorFacts['controlPlanes']> {
  const { snapshot, board, replica, signer } = view;
  const { log, seq } = snapshot;
  const signers = snapshot.head.signers.map(computeFingerprint);
  return board.controlPlanes().map((seen) => {
    const { report, seenMs } = seen;
    const isSelf = report.name === replica;
    const state = board.state(seen, { log, seq, foldVersion });
    return {
      name: report.name,
      isSelf,
      position: report.applied,
      isDiverged: state === 'DIVERGED',
      foldVersion: report.foldVersion,
      sameLog: report.log === log || report.log === null,
      maySign: isSelf
        ? maySign(snapshot.head.signers, signer)
        : signers.length === 0 || signers.includes(report.signer ?? ''),
      silentSeconds: isSelf ? 0 : (performance.now() - seenMs) / 1000,
      clockAheadSeconds: isSelf ? undefined : clockAheadSeconds(seen),
      fault: report.halted,
    };
  });
}

/** Uptime in seconds after which clocks are compared, because by then every live process has reported again. */
const settledSeconds = 15;
const reportedSeconds = 10;

function clockAheadSeconds({ report, seenMs, isRemembered }: SeenReport): number | undefined {
  const silentMs = performance.now() - seenMs;
  const ahead = (Date.parse(report.at) + silentMs - wallClockMs()) / 1000;
  const isKnown = process.uptime() > settledSeconds && silentMs < reportedSeconds * 1000 && !isRemembered;
  return isKnown && Number.isFinite(ahead) ? ahead : undefined;
}

function gatewayFacts({ snapshot, board }: ReplicaView): NonNullable<DoctorFacts['gateways']> {
  const { log, seq } = snapshot;
  const conflicts = board.conflicts();
  return board.gateways().map((seen) => {
    const { report, seenMs } = seen;
    const silentSeconds = (performance.now() - seenMs) / 1000;
    return {
      name: report.name,
      state: board.state(seen, { log, seq, foldVersion }),
      lagEvents: Math.max(0, seq - report.applied),
      freshSeconds: report.freshSeconds === null ? null : report.freshSeconds + silentSeconds,
      silentSeconds,
      clockAheadSeconds: clockAheadSeconds(seen),
      stalePolicy: report.stalePolicy,
      foldVersion: report.foldVersion,
      sameLog: report.log === log || report.log === null,
      processes: conflicts.get(report.name) ?? 1,
      fault: report.halted,
      daysLeft: daysUntil(report.certificateEnds),
      isOutOfFiles: report.outOfFiles && silentSeconds < reportedSeconds,
    };
  });
}

export function daysUntil(moment: string | undefined): number | undefined {
  const days = (Date.parse(moment ?? '') - wallClockMs()) / dayMs;
  return Number.isFinite(days) ? days : undefined;
}

const gatewaysAskedMax = 100;
/** Id that no request has, so that a gateway can answer without a search. */
const noRequest = 'none';

/** Finds gateways that report and record decisions but do not answer questions about them. */
async function muteGateways(context: DoctorContext, client: AbortSignal): Promise<Set<string>> {
  const asked = context.board
    .gateways()
    .filter(({ seenMs }) => performance.now() - seenMs < reportedSeconds * 1000)
    .filter(({ report: { metrics, stopped } }) => metrics !== undefined && stopped !== true)
    .slice(0, gatewaysAskedMax);
  const sources = { ...context, askTimeoutMs: undefined, board: { gateways: () => asked } };
  const { unanswered } = await askDecision(sources, noRequest, client);
  return new Set(unanswered);
}

/** Collects the facts for all groups of checks, except those about the caller's machine. */
export async function collectFacts(context: DoctorContext, reader: PastReader): Promise<DoctorFacts> {
  const { past, dataDir, listener } = context;
  const nowMs = wallClockMs();
  const known = processFacts(context);
  const disk = await statfs(dataDir).catch(() => undefined);
  const history = await past.ask('facts', [0], reader).catch((error: unknown) => ({
    position: 0,
    bytes: 0,
    fault: error instanceof Error ? error.message : String(error),
  }));
  // The history is asked only once if it cannot be read, because a second question would double the wait.
  const hasHistory = !('fault' in history);
  const rows = hasHistory
    ? await past.ask('doctorRows', [0, nowMs], reader).catch(() => undefined)
    : undefined;
  const mute = await muteGateways(context, reader.client);
  const brokers = await context.log.inspect?.().catch(() => undefined);
  const diskFreeBytes = disk && disk.bavail * disk.bsize;
  return {
    ...known,
    log: known.log && { ...known.log, history, diskFreeBytes, brokers, refused: refusedRecords(context) },
    gateways: known.gateways?.map((gateway) => ({ ...gateway, isMute: mute.has(gateway.name) })),
    nodes: nodeFacts(context, rows?.healthChanges),
    models: modelFacts(context, rows, nowMs),
    limits: limitFacts(context),
    listeners: [listener()],
    changes: changeFacts(context, nowMs),
    now: nowMs,
  };
}

function changeFacts(context: DoctorContext, nowMs: number): DoctorFacts['changes'] {
  const { db } = context.snapshot;
  const open = findOpenChange(db);
  const shown = open && withFigures(context, openView(open));
  const withdrawn = withdrawnSince(db, nowMs - dayMs).map(({ id, reason, closed_at: atMs }) => ({
    id,
    hoursAgo: Math.max(0, nowMs - atMs) / hourMs,
    reason: reason ?? '',
  }));
  if (open === undefined || shown === undefined) return { withdrawn };
  const isInside = splitSides(shown);
  const inside = context.board.gateways().filter(({ report }) => isInside(report.name));
  const halted = inside.flatMap(({ report: { name: gateway, halted: reason } }) =>
    reason === undefined ? [] : [{ gateway, reason }],
  );
  const openHours = Math.max(0, nowMs - open.at) / hourMs;
  return { open: { id: open.id, openHours, stuck: shown.stuck, halted }, withdrawn };
}

function modelFacts(
  context: DoctorContext,
  read: DoctorRows | undefined,
  atMs: number,
): DoctorFacts['models'] {
  const { db: state } = context.snapshot;
  const days = (ms: number | null): number | null => (ms === null ? null : (ms - atMs) / dayMs);
  return {
    catalog: listModels(state).map(({ id }) => id),
    installs: listInstalls(context),
    tiers: listTiers(state),
    members: listMembers(state),
    anonymousModels: findAnonymous(state)?.models,
    organisations: listOrganisations(state).map(({ id, tier }) => ({
      id,
      tier,
      activeKeys: read?.activeKeys[id] ?? 0,
    })),
    keys: (read?.keys ?? []).map(({ id, organisation, expiresAtMs, createdBy }) => ({
      id,
      organisation,
      expiresInDays: days(expiresAtMs),
      createdBy,
    })),
  };
}

function listInstalls({ snapshot: { db } }: DoctorContext): { place: string; model: string }[] {
  return [
    ...findPool(db).models.map((model) => ({ place: 'pool', model })),
    ...listStacks(db).flatMap(({ id, models }) => models.map((model) => ({ place: `stack:${id}`, model }))),
  ];
}

function nodeFacts(
  { snapshot: { db }, live, board }: DoctorContext,
  changes: Readonly<Record<string, number>> | undefined,
): DoctorFacts['nodes'] {
  const gateways = board.gateways().map(({ report }) => report);
  return all<RowOf<'node'>>(db, 'SELECT * FROM node ORDER BY id').map((row) => {
    const { id, place, up, drained, reason, owner } = row;
    const { installs = [], withheld } = live.with({ id, owner: owner ?? undefined });
    return {
      id,
      place,
      up: up === 1,
      drained: drained === 1,
      reason: reason ?? undefined,
      withheld,
      unansweredAt: gateways.flatMap(({ name, unanswering }) => (unanswering?.includes(id) ? [name] : [])),
      oddForms: [...new Set(gateways.flatMap(({ oddForms = [] }) => oddForms))]
        .filter((form) => form.startsWith(`${id} `))
        .map((form) => form.slice(id.length + 1)),
      overstatedTo: gateways.flatMap(({ name, overstating }) => (overstating?.includes(id) ? [name] : [])),
      owner: owner ?? undefined,
      models: [...servedModels({ loaded: row.loaded, models: row.models }).keys()],
      failedLoads: installs
        .filter(({ state }) => state === 'failed')
        .map(({ model, reason: why }) => ({ model, reason: why })),
      changesLastHour: changes?.[id],
    };
  });
}

function refusedRecords({ board, gauges, counters, usage }: DoctorContext) {
  const topics: [string, RefusedRecords | undefined][] = [
    [statusTopic, board.refused],
    [gaugesTopic, gauges.refused],
    [countersTopic, counters.refused],
    ...usage.refused.map((records): [string, RefusedRecords] => [usageTopic, records]),
  ];
  return topics.flatMap(([topic, records]) => (records === undefined ? [] : [{ topic, ...records }]));
}

function limitFacts({ snapshot, usageCounts, usageFile, counters }: DoctorContext): DoctorFacts['limits'] {
  const { differing, lost, unread, junk } = usageCounts;
  return {
    fileFaults: usageFile?.().faults ?? [],
    overweight: listOverweight(snapshot.db),
    usageFaults: { differing, lost, unread, junk },
    counterDifferences: counters.differences,
  };
}
