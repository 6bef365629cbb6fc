/**
 * Starts a gateway and connects its parts. A gateway folds the log into its own snapshot and needs nothing else to answer
 * requests. Apart from unpublished usage, it has no other state, so a deleted `state.db` is built again.
 */
import { join } from 'node:path';
import { controlTopic } from '../schemas/events/commit.ts';
import {
  type GatewayMembers,
  gatewayMemberNames,
  reportedMembers,
} from '../schemas/records/gateway-members.ts';
import { parsePins } from '../shared/log/core/trust.ts';
import { observeTopics } from '../shared/log/observe-topics.ts';
import { openLog } from '../shared/log/open-log.ts';
import { type Closers, openAll } from '../shared/runtime/closers.ts';
import { Connections } from '../shared/runtime/connections.ts';
import { lockDataFolder } from '../shared/runtime/data-folder.ts';
import { advertisedUrl } from '../shared/runtime/listener.ts';
import { FileShortage } from '../shared/runtime/open-files.ts';
import { observeResources } from '../shared/runtime/process-metrics.ts';
import { FoldMetrics } from '../shared/snapshot/fold-metrics.ts';
import type { StatusPublisher } from '../shared/status/status-publisher.ts';
import { startHealth } from './health.ts';
import { listen } from './listeners.ts';
import { openGateway } from './open-gateway.ts';
import { DecisionJournal } from './records/decision-journal.ts';
import { countDecisions } from './records/serve-decisions.ts';
import type { GatewaySettings } from './settings.ts';
import { checkSnapshotSources } from './snapshot/fetch-snapshot.ts';
import { followLog, type GatewayState, openPublisher, type StateMembers } from './snapshot/follow-log.ts';
import { drain } from './telemetry/drain.ts';
import { TrafficReports } from './telemetry/traffic-reports.ts';

export interface RunningGateway {
  /** Base URL of the API, which ends in /v1. */
  readonly api: string;
  readonly metrics: string;
  readonly stacks: readonly { readonly stack: string; readonly url: string }[];
  /** URL of the playground's page, if there is one. */
  readonly play: string | undefined;
  /** Waits for requests in flight and stops the gateway. */
  close(): Promise<void>;
}

/** Parts of a gateway that exist once the gateway has announced itself to the control planes. */
interface AnnouncedState {
  readonly state: GatewayState;
  readonly publisher: StatusPublisher;
  readonly traffic: TrafficReports;
  readonly requests: { open: number };
  readonly metrics: FoldMetrics;
}

export function startGateway(settings: GatewaySettings): Promise<RunningGateway> {
  return openAll(settings.logger, async (closers) => {
    if (!settings.insecureSnapshots) checkSnapshotSources(settings.controlPlanes);
    const trusted = parsePins(settings.trustedSigners);
    const folder = lockDataFolder(settings.dataDir);
    closers.add(() => folder.release());
    const log = await openLog(settings.logUrl, { topic: controlTopic });
    closers.add(() => log.close());
    const metrics = new FoldMetrics();
    const following = { ...settings, trusted, metrics };
    const publisher = await openPublisher(following, closers);
    const state = await followLog(following, log, publisher, closers);
    const requests = { open: 0 };
    const traffic = new TrafficReports(state.lookup, () => requests.open, settings.intervals?.trafficMs);
    await state.announce(traffic);
    metrics.watch(() => state);
    observeResources(metrics.registry, settings);
    closers.add(observeTopics({ log, registry: metrics.registry, logger: settings.logger }));
    return serve(settings, { state, publisher, traffic, requests, metrics }, closers);
  });
}

async function serve(
  settings: GatewaySettings,
  { state, publisher, traffic, requests, metrics }: AnnouncedState,
  closers: Closers,
): Promise<RunningGateway> {
  const { logger } = settings;
  const { registry } = metrics;
  const { incarnation } = publisher;
  const journal = openJournal(settings, registry, closers);
  const files = new FileShortage(registry, logger);
  closers.add(() => files.close());
  const observers = { registry, journal, files, traffic, requests };
  const { gateway, exchange, telemetry } = await openGateway(settings, state, observers, closers);
  const connections = new Connections({ registry, logger, limits: settings.connections });
  const draining = { value: false };
  const { meter } = gateway;
  const health = await startHealth(
    settings,
    { state, meter, exchange, files, journal, metrics, connections, draining, incarnation },
    closers,
  );
  const decisionsUrl = journal && advertisedUrl(health.url, settings.advertise);
  // Add these members to the gateway's reports, because control planes need them before they can query its requests.
  publisher.add(() =>
    reportedMembers(gatewayMemberNames, {
      metrics: decisionsUrl,
      certificateEnds: settings.certificate?.validUntil,
      overstating: telemetry.clampedUsage.recent(),
      unanswering: gateway.load.hanging(),
      oddForms: telemetry.oddForms.recent(),
      outOfFiles: files.isShort,
      countsTraffic: true,
    } satisfies Omit<GatewayMembers, keyof StateMembers>),
  );
  const { api, stacks, play } = await listen(settings, gateway, connections, closers);
  const addresses = { api: `${api.url}/v1`, play: play?.url, metrics: health.url };
  logger.info({ ...addresses, position: state.snapshot.seq }, 'gateway started');
  return {
    ...addresses,
    stacks: stacks.map(({ stack, listener }) => ({ stack, url: `${listener.url}/v1` })),
    close: async () => {
      draining.value = true;
      const listeners = [api, ...stacks.map(({ listener }) => listener), ...(play ? [play] : [])];
      await drain(settings, listeners, () => requests.open);
      await closers.close();
    },
  };
}

function openJournal(
  { dataDir, name, decisionsOneIn: oneIn = 1 }: GatewaySettings,
  registry: FoldMetrics['registry'],
  closers: Closers,
): DecisionJournal | undefined {
  if (oneIn === 0) return undefined;
  const journal = new DecisionJournal({ folder: join(dataDir, 'records'), gateway: name, oneIn });
  closers.add(() => journal.close());
  countDecisions(registry, journal);
  return journal;
}
