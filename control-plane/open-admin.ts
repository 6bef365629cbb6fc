/** Opens the usage totals, the history, and the listeners of the admin API and the console. */
import { join } from 'node:path';
import type { ControlLog } from '../shared/log/core/control-log.ts';
import type { Closers } from '../shared/runtime/closers.ts';
import type { Connections } from '../shared/runtime/connections.ts';
import type { Snapshot } from '../shared/snapshot/snapshot.ts';
import { createAdminApp } from './admin-api/app.ts';
import { callerBounds } from './admin-api/caller-bounds.ts';
import type { AdminContext } from './admin-api/context.ts';
import { daysUntil } from './admin-api/doctor-facts.ts';
import { openHttpApp } from './admin-api/http-app.ts';
import { gatewayAgent } from './gateways/ask-decisions.ts';
import { openFleetCounters } from './gateways/fleet-counters.ts';
import { countedTokens } from './gateways/open-fleet.ts';
import { HistoryThread } from './history/open-history.ts';
import { PastStates } from './history/past.ts';
import type { Replica } from './open-replica.ts';
import { SignInLinks } from './sessions/sign-in-links.ts';
import type { ControlPlaneSettings } from './settings.ts';
import { openUsage } from './usage/open-usage.ts';
import type { UsageFile } from './usage/usage-file.ts';
import { countUsageFaults, countUsageRows } from './usage/usage-metrics.ts';

interface ServedParts extends Pick<AdminContext, 'board' | 'agents' | 'live' | 'drain'> {
  readonly connections: Connections;
}

export interface OpenedAdmin {
  readonly app: Awaited<ReturnType<typeof createAdminApp>>;
  /** Address of the console, if this replica has one. */
  readonly console: string | undefined;
  readonly usageFile: UsageFile;
}

export async function openAdmin(
  settings: ControlPlaneSettings,
  log: ControlLog,
  replica: Replica,
  parts: ServedParts,
  closers: Closers,
): Promise<OpenedAdmin> {
  const { logger, operatorToken, gatewayToken, previousGatewayToken, certificate } = settings;
  const { snapshot, replicator, writer, fleetMemory, traffic, metrics, signer } = replica;
  const usage = await openUsage({
    ...{ logUrl: settings.logUrl, dataDir: settings.dataDir, logger, keepRows: true },
    usageKeepDays: settings.usageKeepDays,
    tokens: countedTokens(settings),
  });
  closers.add(() => usage.close());
  countUsageRows(metrics.registry, usage.counts);
  countUsageFaults(metrics.registry, usage.file);
  const counters = openFleetCounters(settings, usage.reader, metrics.registry);
  closers.add(() => counters.stop());
  counters.start();
  usage.start((applied) => counters.onApplied(applied));
  const links = settings.console && new SignInLinks(operatorToken, () => snapshot.log);
  const context: AdminContext = {
    replica: settings.name,
    snapshot,
    replicator,
    log,
    signer,
    writer,
    past: startHistory(settings, snapshot, closers),
    board: parts.board,
    fleetMemory,
    traffic,
    agents: parts.agents,
    live: parts.live,
    usage: usage.reader,
    counters,
    gauges: replica.gauges,
    ...callerBounds(logger),
    askTimeoutMs: settings.askTimeoutMs,
    gatewayAgent: await gatewayAgent(settings.gatewayTlsName, closers),
    usageCounts: usage.counts,
    usageFile: () => usage.file.state,
    listener: () => adminListener(settings),
    dataDir: settings.dataDir,
    operatorToken,
    gatewayToken,
    previousGatewayToken,
    drain: parts.drain,
    onCommits: (listener) => {
      replica.listeners.add(listener);
      return () => replica.listeners.delete(listener);
    },
    links,
    logger,
  };
  const app = await createAdminApp(context, { connections: parts.connections, certificate });
  const { bind: host, port, portFlag = '--port' } = settings;
  await openHttpApp(app, { host, port, portFlag }, closers);
  parts.drain.countRequests(app.server);
  const { file: usageFile } = usage;
  if (!settings.console) return { app, console: undefined, usageFile };
  const { startConsole } = await import('./console-server/start-console.ts');
  const people = { connections: parts.connections, certificate, dataDir: settings.dataDir };
  return { app, console: await startConsole(settings.console, context, people, closers), usageFile };
}

/** Returns facts about the admin API's listener, for `doctor`. */
function adminListener({ bind, certificate }: ControlPlaneSettings): ReturnType<AdminContext['listener']> {
  return {
    name: 'admin',
    isLoopback: /^(?:127\.|::1$|localhost$)/.test(bind),
    daysLeft: daysUntil(certificate?.validUntil),
  };
}

/** Opens the history of past states, which runs on its own thread. */
function startHistory(settings: ControlPlaneSettings, snapshot: Snapshot, closers: Closers): PastStates {
  const { logUrl, logger } = settings;
  const history = new HistoryThread({
    path: join(settings.dataDir, 'history.db'),
    bytesMax: settings.historyBytesMax,
    logUrl,
    logger,
  });
  closers.add(() => history.stop());
  return new PastStates({ present: snapshot, history });
}
