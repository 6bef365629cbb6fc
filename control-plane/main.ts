/** Starts all parts of a control-plane replica. Any number of equal replicas may run on one log. */
import type { AddressInfo } from 'node:net';
import { controlTopic } from '../schemas/events/commit.ts';
import type { ControlLog } from '../shared/log/core/control-log.ts';
import { loadSigner } from '../shared/log/core/signing.ts';
import { parsePins } from '../shared/log/core/trust.ts';
import { observeTopics } from '../shared/log/observe-topics.ts';
import { openLog } from '../shared/log/open-log.ts';
import { type Closers, openAll } from '../shared/runtime/closers.ts';
import { Connections } from '../shared/runtime/connections.ts';
import { lockDataFolder } from '../shared/runtime/data-folder.ts';
import { countStart } from '../shared/runtime/folder-start.ts';
import { listenerUrl, loopback } from '../shared/runtime/listener.ts';
import { observeResources } from '../shared/runtime/process-metrics.ts';
import { Drain } from './admin-api/drain.ts';
import { startHealth } from './admin-api/health.ts';
import { EndedKeys } from './commands/ended-keys.ts';
import { StagedWatch } from './gateways/change-watch.ts';
import { openFleetGauges } from './gateways/fleet-gauges.ts';
import { openFleet } from './gateways/open-fleet.ts';
import { startNodeWatch } from './nodes/node-watch.ts';
import { openAdmin } from './open-admin.ts';
import { openReplica, type Replica, watchCommits } from './open-replica.ts';
import type { ControlPlaneSettings } from './settings.ts';
import { startVerification } from './state/verification.ts';
import { statusPublisher } from './status-publisher.ts';

export interface ControlPlane {
  /** Base address of the admin API, without its prefix. */
  readonly admin: string;
  readonly metrics: string;
  /** Address of the console, if this replica has one. */
  readonly console?: string | undefined;
  /** Refuses new work, waits for requests in flight, and then closes the replica. */
  close(): Promise<void>;
}

const drainTimeoutSecondsDefault = 5;

export function startControlPlane(settings: ControlPlaneSettings): Promise<ControlPlane> {
  const { logger } = settings;
  return openAll(logger, async (closers) => {
    const folder = lockDataFolder(settings.dataDir);
    closers.add(() => folder.release());
    const signer = settings.signingKeyFile === undefined ? undefined : loadSigner(settings.signingKeyFile);
    const trusted = parsePins(settings.trustedSigners);
    const log = await openLog(settings.logUrl, { topic: controlTopic });
    closers.add(() => log.close());
    // Counts the starts in this data folder, because a later start proves that the earlier process has ended.
    const start = countStart(settings.dataDir);
    const gauges = openFleetGauges(settings);
    closers.add(() => gauges.stop());
    gauges.start();
    const fleet = await openFleet(settings, closers, () => gauges.logNow());
    const replica = await openReplica(settings, log, { signer, trusted, start, gauges, ...fleet });
    closers.add(() => replica.snapshot.close());
    closers.add(() => replica.replicator.stop());
    const { drain, ...addresses } = await serve(settings, log, replica, closers);
    logger.info({ ...addresses, position: replica.snapshot.seq }, 'control plane started');
    const close = async (): Promise<void> => {
      await drain();
      await closers.close();
    };
    return { ...addresses, close };
  });
}

async function serve(
  settings: ControlPlaneSettings,
  log: ControlLog,
  replica: Replica,
  closers: Closers,
): Promise<{ admin: string; metrics: string; console: string | undefined; drain: () => Promise<void> }> {
  const { logger, name } = settings;
  const { snapshot, replicator, writer, board, signer } = replica;
  const publisher = statusPublisher(settings, replica);
  closers.add(() => publisher.stop());
  const nodes = startNodeWatch({
    name,
    snapshot,
    replicator,
    writer,
    board,
    publisher,
    logger,
    credential: settings.nodeCredentials ?? (() => undefined),
    intervals: settings.nodeIntervals,
  });
  closers.add(() => nodes.stop());
  publisher.add(() => nodes.agents.report());
  replica.listeners.add(nodes.onCommits);
  watchCommits(replica, logger);
  startVerification(snapshot, closers, logger, settings.verifyPauseMs);
  const { forgetKeysAfterMs: forgetAfterMs } = settings;
  const endedKeys = new EndedKeys({ name, snapshot, replicator, writer, logger, forgetAfterMs });
  closers.add(() => endedKeys.stop());
  endedKeys.start();
  const drain = new Drain();
  const { registry } = replica.metrics;
  observeResources(registry, settings);
  closers.add(observeTopics({ log, registry, logger }));
  const connections = new Connections({ registry, logger, limits: settings.connections });
  const { app, console, usageFile } = await openAdmin(
    settings,
    log,
    replica,
    { board, ...nodes, drain, connections },
    closers,
  );
  // Runs before the listener closes the agents' sockets, because agents whose sockets are simply closed count as lost.
  closers.add(() => nodes.agents.stop());
  const changes = new StagedWatch({
    ...{ name, snapshot, writer, board, traffic: replica.traffic },
    ...{ registry, logger },
  });
  closers.add(() => changes.stop());
  const health = await startHealth({
    replica: name,
    ...{ log, snapshot, board, replicator, signer },
    agents: nodes.agents,
    usageFile: () => usageFile.state,
    metrics: replica.metrics,
    drain,
    certificate: settings.certificate,
    connections,
    host: settings.metricsBind ?? loopback,
    port: settings.metricsPort,
  });
  closers.add(() => health.close());
  const { drainDelaySeconds: delaySeconds = 0, drainTimeoutSeconds } = settings;
  const times = { delaySeconds, timeoutSeconds: drainTimeoutSeconds ?? drainTimeoutSecondsDefault };
  return {
    admin: listenerUrl(app.server.address() as AddressInfo, settings.certificate !== undefined),
    metrics: health.url,
    console,
    drain: () => drain.run(app.server, times, () => nodes.agents.stop()),
  };
}
