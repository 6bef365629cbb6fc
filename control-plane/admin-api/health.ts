/** Serves health, readiness and metrics of a control-plane replica. */

import type { Connections } from '../../shared/runtime/connections.ts';
import { type Check, type HealthServer, startHealthServer } from '../../shared/runtime/health-server.ts';
import type { ListenAddress } from '../../shared/runtime/listener.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import type { FoldMetrics } from '../../shared/snapshot/fold-metrics.ts';
import { maySign } from '../commands/log-signing.ts';
import { diagnose } from '../doctor/diagnose.ts';
import type { StatusBoard } from '../gateways/status-board.ts';
import type { AgentSessions } from '../nodes/agent-sessions.ts';
import type { NodeRow } from '../nodes/node-health.ts';
import type { UsageFileState } from '../usage/usage-file.ts';
import { processFacts, type ReplicaView } from './doctor-facts.ts';
import type { Drain } from './drain.ts';
import { observeFleet } from './fleet-metrics.ts';

interface Replica extends ReplicaView {
  readonly agents: AgentSessions;
  readonly usageFile: () => UsageFileState;
}

export interface HealthSettings extends Replica, ListenAddress {
  readonly drain: Drain;
  readonly metrics: FoldMetrics;
  readonly connections: Connections;
  readonly certificate: Certificate | undefined;
}

/** Starts the listener for health and metrics. Rejects if the address cannot be bound. */
export async function startHealth(settings: HealthSettings): Promise<HealthServer> {
  const { agents, board, snapshot, metrics, connections, certificate, host, port } = settings;
  const observed = new ObservedMetrics(metrics.registry);
  observed.gauge('headgate_agent_sessions', 'node agents attached to this replica', () => agents.count);
  const nodes = snapshot.db.prepare<[], Pick<NodeRow, 'id' | 'up'>>('SELECT id, up FROM node');
  observed.gauges('headgate_node_up', '1 while the node is up according to the log', 'node', () =>
    nodes.all().map(({ id, up }) => [id, up === 1 ? 1 : 0] as const),
  );
  const { registry } = metrics;
  observeFleet({ registry, board, head: () => ({ log: snapshot.log, seq: snapshot.seq, foldVersion }) });
  return await startHealthServer({
    host,
    port,
    certificate,
    connections,
    checks: () => {
      const countsForReads = isSurpassed(settings);
      return [...checks(settings).map((check) => ({ ...check, countsForReads })), settings.drain.check];
    },
    metrics: metrics.registry,
  });
}

const reportedMs = 10_000;

/** Whether reads should go to another replica. False if the log is unreachable, because others are probably no better off. */
function isSurpassed({ board, replica, replicator }: Replica): boolean {
  if (!replicator.reachable) return false;
  return board.controlPlanes().some(({ report: { name, halted, stopped }, seenMs }) => {
    const isSilent = stopped === true || performance.now() - seenMs > reportedMs;
    return name !== replica && halted === undefined && !isSilent;
  });
}

function checks(view: Replica): Check[] {
  const { snapshot, replicator, signer, board } = view;
  const age = replicator.freshness.ageSeconds();
  return [
    {
      name: 'log',
      ok: replicator.reachable,
      detail: replicator.reachable ? `at ${snapshot.seq}` : 'cannot be reached',
    },
    {
      name: 'fold',
      ok: !snapshot.halt && !replicator.fault,
      detail: snapshot.halt?.reason ?? replicator.fault?.message ?? '',
    },
    {
      name: 'signer',
      ok: maySign(snapshot.head.signers, signer),
      detail: snapshot.head.signers.length > 0 ? 'the log is signed' : 'the log is not signed',
    },
    { name: 'fresh', ok: age <= 30, detail: Number.isFinite(age) ? `${age.toFixed(1)} s` : 'not proven yet' },
    // Only informs operators, because a misconfigured gateway does not make this replica unready.
    { name: 'gateways', ok: true, detail: gatewaysDetail(board) },
    { name: 'usage', ok: true, detail: usageDetail(view.usageFile()) },
    ...findings(view),
  ];
}

/** Describes the state of `usage.db`. It never affects readiness, because all rows that can be read are correct. */
function usageDetail({ checkedMsAgo, faults: [first, ...more] }: UsageFileState): string {
  if (first !== undefined)
    return `usage.db is damaged: ${first.object}: ${first.text}${more.length > 0 ? `; ${more.length} more` : ''}`;
  return checkedMsAgo === undefined
    ? 'not checked yet'
    : `checked ${Math.round(checkedMsAgo / 60_000)} min ago`;
}

/** Returns findings of `doctor` about the log and the processes, to inform operators. They never affect readiness. */
function findings(view: Replica): Check[] {
  return diagnose(processFacts(view), ['log', 'control-planes', 'gateways'])
    .checks.filter(({ level }) => level !== 'ok')
    .map(({ code, level, object = '', text, findings = 1 }) => ({
      name: code,
      ok: true,
      detail: `${level} ${object} ${text}${findings > 1 ? `; ${findings - 1} more` : ''}`,
    }));
}

function gatewaysDetail(board: StatusBoard): string {
  if (!board.isComplete) return 'their reports are being read';
  const conflicts = [...board.conflicts()].slice(0, 20);
  if (conflicts.length === 0) return `${board.gateways().length} known`;
  return conflicts.map(([name, count]) => `${count} processes report as ${name}`).join(', ');
}
