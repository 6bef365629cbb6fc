/** Opens the listener for health checks, metrics and recorded decisions. */

import type { Closers } from '../shared/runtime/closers.ts';
import type { Connections } from '../shared/runtime/connections.ts';
import { type Check, type HealthServer, startHealthServer } from '../shared/runtime/health-server.ts';
import { loopback } from '../shared/runtime/listener.ts';
import type { FileShortage } from '../shared/runtime/open-files.ts';
import type { FoldMetrics } from '../shared/snapshot/fold-metrics.ts';
import type { LimitExchange } from './limits/limit-exchange.ts';
import type { DecisionJournal } from './records/decision-journal.ts';
import { decisionRoute } from './records/serve-decisions.ts';
import type { GatewaySettings } from './settings.ts';
import type { GatewayState } from './snapshot/follow-log.ts';
import { drainCheck } from './telemetry/drain.ts';
import type { Meter } from './usage/meter.ts';

interface HealthParts {
  readonly state: GatewayState;
  readonly meter: Meter;
  readonly exchange: LimitExchange;
  readonly files: FileShortage;
  readonly journal: DecisionJournal | undefined;
  readonly metrics: FoldMetrics;
  readonly connections: Connections;
  readonly draining: { readonly value: boolean };
  /** Id that changes whenever the process starts. The gateway's reports contain this id. */
  readonly incarnation: string;
}

export async function startHealth(
  settings: GatewaySettings,
  parts: HealthParts,
  closers: Closers,
): Promise<HealthServer> {
  const { state, meter, exchange, files, journal, incarnation } = parts;
  const checks = (): readonly Check[] => [
    ...state.checks(),
    clockCheck(exchange),
    usageCheck(meter.isFull),
    files.check(),
    drainCheck(parts.draining.value),
  ];
  const health = await startHealthServer({
    host: settings.metricsBind ?? loopback,
    port: settings.metricsPort,
    certificate: settings.certificate,
    connections: parts.connections,
    checks,
    metrics: parts.metrics.registry,
    route: decisionRoute(journal, { token: settings.gatewayToken, incarnation }),
  });
  closers.add(() => health.close());
  return health;
}

/** Describes the clock for operators; never fails. Only key expiry depends on it: limits and usage follow the log's clock. */
function clockCheck({ clockAheadMs, leapMs }: LimitExchange): Check {
  const seconds = Math.round(Math.abs(clockAheadMs) / 1000);
  const follows =
    leapMs === 0
      ? 'limits and usage follow; correct the clock of this machine'
      : 'only limits per minute follow, because it has jumped; correct the clock of its broker';
  const detail =
    seconds === 0
      ? 'agrees with the clock of the log'
      : `${seconds} s ${clockAheadMs > 0 ? 'behind' : 'ahead of'} the clock of the log, which ${follows}`;
  return { name: 'clock', ok: true, detail };
}

/** Fails while usage cannot be stored, because the gateway then refuses all requests. */
function usageCheck(isFull: boolean): Check {
  return { name: 'usage', ok: !isFull, ...(isFull && { detail: 'no more usage can be stored' }) };
}
