/**
 * Composition root of a gateway: it folds the log into its own snapshot and answers every request from that alone.
 * Stateless but for usage not yet shipped: delete its state.db and it rebuilds.
 */
import { join } from 'node:path';
import { controlTopic } from '../schemas/events/commit.ts';
import type { StalePolicy } from '../schemas/records/status.ts';
import type { HostNames } from '../shared/decision/admission.ts';
import { measureCounterFeed } from '../shared/limits/counter-feed-metrics.ts';
import { trustedSigners } from '../shared/log/core/trust.ts';
import { observeTopics } from '../shared/log/observe-topics.ts';
import { openLog } from '../shared/log/open-log.ts';
import { BodyBudget } from '../shared/runtime/byte-budget.ts';
import { wallClockMs } from '../shared/runtime/clock.ts';
import { type Closers, openAll } from '../shared/runtime/closers.ts';
import { type ConnectionLimits, Connections, type ListenerName } from '../shared/runtime/connections.ts';
import { lockDataFolder } from '../shared/runtime/data-folder.ts';
import { endOnFault } from '../shared/runtime/fault.ts';
import { type Check, startHealthServer } from '../shared/runtime/health-server.ts';
import { advertisedUrl, loopback } from '../shared/runtime/listener.ts';
import { type AccessLog, accessLogIn, type Logger } from '../shared/runtime/logger.ts';
import type { CredentialSource } from '../shared/runtime/node-credentials.ts';
import { FileShortage } from '../shared/runtime/open-files.ts';
import { observeResources } from '../shared/runtime/process-metrics.ts';
import type { Certificate } from '../shared/runtime/tls.ts';
import { FoldMetrics } from '../shared/snapshot/fold-metrics.ts';
import { BodyWorker } from './body-worker/body-worker.ts';
import { type Listener, startListener } from './http/api-listener.ts';
import { withOrigins } from './http/cors.ts';
import { type LimitExchange, openLimitExchange } from './limits/limit-exchange.ts';
import { Affinity } from './nodes/affinity.ts';
import { createPromptCounter } from './nodes/count-tokens.ts';
import type { ForwardSettings } from './nodes/forward.ts';
import { NodeLoad } from './nodes/load.ts';
import { NodePools } from './nodes/node-pools.ts';
import type { PlaySettings } from './playground/start-play.ts';
import { DecisionJournal } from './records/decision-journal.ts';
import { RequestRecords } from './records/request-records.ts';
import { countDecisions, decisionRoute } from './records/serve-decisions.ts';
import { LocalCounters } from './request/counters.ts';
import type { Gateway } from './request/gateway.ts';
import { handle } from './request/handle.ts';
import { checkSnapshotSources } from './snapshot/fetch-snapshot.ts';
import { followLog, type GatewayState } from './snapshot/follow-log.ts';
import type { SnapshotIntervals } from './snapshot/intervals.ts';
import { TenantSecrets } from './surfaces/common/tenant-secrets.ts';
import { passTrace } from './surfaces/common/trace-context.ts';
import { drain, drainCheck } from './telemetry/drain.ts';
import { openTraceExport } from './telemetry/export-traces.ts';
import { Telemetry } from './telemetry/telemetry.ts';
import { TrafficReports } from './telemetry/traffic-reports.ts';
import { openMeter } from './usage/open-meter.ts';

export interface GatewaySettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  /** Of health and metrics; loopback unless given. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  /** Where control planes reach that listener, as `advertisedUrl` takes it. */
  readonly advertise?: string | undefined;
  /** Of each listener but that of health and metrics. */
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly hosts: HostNames;
  /** Ports that serve one stack each, whatever the Host header is. */
  readonly stackPorts: readonly { readonly stack: string; readonly port: number }[];
  /** Origins whose pages may read answers of the API; left out: none. */
  readonly corsOrigins?: ReadonlySet<string> | undefined;
  /** The page for visitors; left out: none. */
  readonly play?: PlaySettings | undefined;
  readonly whenStale: StalePolicy;
  readonly controlPlanes: readonly string[];
  /** Also fetch snapshots over plain HTTP from another machine. */
  readonly insecureSnapshots?: boolean | undefined;
  /** Shared with the control planes: fetches snapshots, and authenticates this gateway's reports. */
  readonly gatewayToken: string;
  /** Fingerprints, public keys or PEM files: one of them must have begun the log. None: any log will do. */
  readonly trustedSigners?: readonly string[] | undefined;
  readonly nodeCredentials?: CredentialSource;
  /** false: requests to the pool go without `cache_salt`, for engines that refuse it. */
  readonly saltsCaches?: boolean;
  /** For a connection to a node. */
  readonly connectMs: number;
  readonly forwarding: ForwardSettings;
  /** Between the loss of readiness and the end of new connections, seconds. */
  readonly drainDelaySeconds: number;
  /** How long streams may continue after that, seconds. */
  readonly drainTimeoutSeconds: number;
  /** Of every listener. */
  readonly certificate?: Certificate | undefined;
  /** Of the control log and its snapshot; the defaults where they are left out. */
  readonly intervals?: Partial<SnapshotIntervals>;
  /** Of completed requests one in so many is kept in the decision journal, of all others each; 0: no journal. */
  readonly decisionsOneIn?: number | undefined;
  readonly logger: Logger;
  /** For the lines of requests; `logger` unless it is given. */
  readonly accessLog?: AccessLog;
}

export interface RunningGateway {
  /** Base address of the API, ending in /v1. */
  readonly api: string;
  readonly metrics: string;
  readonly stacks: readonly { readonly stack: string; readonly url: string }[];
  /** Address of the page for visitors. */
  readonly play: string | undefined;
  /** Drains, then closes. */
  close(): Promise<void>;
}

export function startGateway(settings: GatewaySettings): Promise<RunningGateway> {
  return openAll(settings.logger, async (closers) => {
    if (!settings.insecureSnapshots) checkSnapshotSources(settings.controlPlanes);
    const trusted = trustedSigners(settings.trustedSigners);
    const folder = lockDataFolder(settings.dataDir);
    closers.add(() => folder.release());
    const log = await openLog(settings.logUrl, { topic: controlTopic });
    closers.add(() => log.close());
    const metrics = new FoldMetrics();
    const state = await followLog({ ...settings, trusted, metrics }, log, closers);
    metrics.watch(() => state);
    observeResources(metrics.registry, settings);
    closers.add(observeTopics({ log, registry: metrics.registry, logger: settings.logger }));
    return serve(settings, state, metrics, closers);
  });
}

async function serve(
  settings: GatewaySettings,
  state: GatewayState,
  metrics: FoldMetrics,
  closers: Closers,
): Promise<RunningGateway> {
  const { logger } = settings;
  const { registry } = metrics;
  const journal = openJournal(settings, registry, closers);
  const files = new FileShortage(registry, logger);
  closers.add(() => files.close());
  const observers = { registry, journal, files };
  const { gateway, telemetry, inFlight, clock } = await compose(settings, state, observers, closers);
  const draining = { value: false };
  const connections = new Connections({ registry, logger, limits: settings.connections });
  const checks = (): readonly Check[] => [
    ...state.checks(),
    ...[clock(), usageCheck(gateway.meter.isFull), files.check()],
    drainCheck(draining.value),
  ];
  const health = await startHealthServer({
    host: settings.metricsBind ?? loopback,
    port: settings.metricsPort,
    ...{ certificate: settings.certificate, connections, checks },
    metrics: registry,
    route: decisionRoute(journal, { token: settings.gatewayToken, incarnation: state.incarnation }),
  });
  closers.add(() => health.close());
  const decisionsUrl = journal && advertisedUrl(health.url, settings.advertise);
  state.reportWith(() => ({
    metrics: decisionsUrl,
    certificateEnds: settings.certificate?.validUntil,
    overstating: telemetry.clampedUsage.recent(),
    unanswering: gateway.load.hanging(),
    oddForms: telemetry.oddForms.recent(),
    outOfFiles: files.isShort,
    countsTraffic: true,
  }));
  const listeners = await listen(settings, gateway, connections, closers);
  const api = `${(listeners[0] as Opened).listener.url}/v1`;
  const play = listeners.find(({ name }) => name === 'play')?.listener.url;
  logger.info({ api, play, metrics: health.url, position: state.snapshot.seq }, 'gateway started');
  return {
    api,
    metrics: health.url,
    play,
    stacks: listeners.flatMap(({ stack, listener }) =>
      stack === undefined ? [] : [{ stack, url: `${listener.url}/v1` }],
    ),
    close: async () => {
      draining.value = true;
      const opened = listeners.map(({ listener }) => listener);
      await drain(settings, opened, inFlight);
      await closers.close();
    },
  };
}

interface Observers {
  readonly registry: ConstructorParameters<typeof Telemetry>[0];
  readonly journal: DecisionJournal | undefined;
  readonly files: FileShortage;
}

function openJournal(
  { dataDir, name, decisionsOneIn: oneIn = 1 }: GatewaySettings,
  registry: Observers['registry'],
  closers: Closers,
): DecisionJournal | undefined {
  if (oneIn === 0) return undefined;
  const journal = new DecisionJournal({ folder: join(dataDir, 'records'), gateway: name, oneIn });
  closers.add(() => journal.close());
  countDecisions(registry, journal);
  return journal;
}

async function compose(
  settings: GatewaySettings,
  state: GatewayState,
  { registry, journal, files }: Observers,
  closers: Closers,
): Promise<{
  gateway: Gateway;
  telemetry: Telemetry;
  inFlight: () => number;
  clock: () => Check;
}> {
  const { logger } = settings;
  const { lookup } = state;
  const usage = await openMeter({
    ...{ logUrl: settings.logUrl, dataDir: settings.dataDir, name: settings.name, lookup, logger },
    ...{ gatewayToken: settings.gatewayToken, controlPlanes: settings.controlPlanes },
    // Answers that cannot be billed must not be sent: a supervisor starts the gateway again.
    onLost: (error) => endOnFault(logger, error, 'usage can no longer be recorded: this gateway ends'),
  });
  closers.add(() => usage.close());
  measureCounterFeed(registry, () => usage.meter.counterRecords);
  const pools = openPools(settings, files, closers);
  const bodyWorker = openBodyWorker(logger, closers);
  const load = new NodeLoad();
  const affinity = new Affinity({ load, secret: settings.gatewayToken });
  const exchange = await openLimitExchange({
    ...{ logUrl: settings.logUrl, gatewayToken: settings.gatewayToken, placements: affinity },
    ...{ dataDir: settings.dataDir, name: settings.name, registry, logger },
  });
  closers.add(() => exchange.close());
  const counters = new LocalCounters(usage.meter, exchange);
  const streams = { open: 0 };
  const bodies = new BodyBudget();
  const telemetry = new Telemetry(registry, {
    isCatalogued: (model) => lookup.isCatalogued(model),
    inFlightUnits: () => counters.inFlightUnits(),
    openStreams: () => streams.open,
    outboxRows: () => usage.meter.unshippedRows,
    ...{ affinityChoices: () => affinity.chosen, bodies, logger },
  });
  const traces = await openTraceExport({ name: settings.name, closers, registry, logger });
  const { accessLog = accessLogIn(logger) } = settings;
  const records = new RequestRecords({ lookup, accessLog, journal, traces });
  let openRequests = 0;
  const traffic = countTraffic(state, settings, () => openRequests);
  const gateway: Gateway = {
    hosts: settings.hosts,
    lookup,
    counters,
    bodies,
    bodyWorker,
    pools,
    load,
    affinity,
    ...tenantSecrets(settings),
    meter: usage.meter,
    forwarding: settings.forwarding,
    countTokens: createPromptCounter(pools, bodyWorker),
    streams,
    logger,
    fenced: () => state.fenced(),
    awaitFreshProof: () => state.awaitFreshProof(),
    now: wallClockMs,
    logNow: () => wallClockMs() + exchange.periodsAheadMs,
    trace: traces === undefined ? passTrace : traces.begin,
    begin: () => void openRequests++,
    observe: (record) => {
      openRequests--;
      records.add(record, telemetry.observe(record));
      traffic.add(record);
    },
    observeEarly: (refused) => {
      records.addEarly(refused);
      traffic.addEarly(refused);
    },
  };
  return { gateway, telemetry, inFlight: () => openRequests, clock: () => clockCheck(exchange) };
}

function tenantSecrets({
  gatewayToken,
  saltsCaches,
}: Pick<GatewaySettings, 'gatewayToken' | 'saltsCaches'>): Pick<Gateway, 'cacheSalts' | 'sealKeys'> {
  return {
    cacheSalts: saltsCaches === false ? undefined : new TenantSecrets(gatewayToken, 'cache salt'),
    sealKeys: new TenantSecrets(gatewayToken, 'sealed thoughts'),
  };
}

function openBodyWorker(logger: Logger, closers: Closers): BodyWorker {
  const bodyWorker = new BodyWorker({
    onLost: (reason) =>
      logger.error({ reason }, 'the thread for large bodies ended; the next large body starts a new one'),
  });
  closers.add(() => bodyWorker.close());
  return bodyWorker;
}

/** Its reports are part of those of the gateway. */
function countTraffic(
  { lookup, late }: GatewayState,
  { intervals }: GatewaySettings,
  inFlight: () => number,
): TrafficReports {
  const traffic = new TrafficReports(lookup, inFlight, intervals?.trafficMs);
  late.traffic = traffic;
  return traffic;
}

function openPools(
  { nodeCredentials, connectMs }: GatewaySettings,
  files: FileShortage,
  closers: Closers,
): NodePools {
  const credential = nodeCredentials ?? (() => undefined);
  const pools = new NodePools({ credential, connectMs, onOutOfFiles: () => files.note() });
  closers.add(() => pools.close());
  return pools;
}

interface Opened {
  readonly name: ListenerName;
  readonly stack: string | undefined;
  readonly listener: Listener;
}

async function listen(
  settings: GatewaySettings,
  gateway: Gateway,
  connections: Connections,
  closers: Closers,
): Promise<Opened[]> {
  const handler = withOrigins(settings.corsOrigins ?? new Set(), handle.bind(undefined, gateway));
  const onRefusal = gateway.observeEarly;
  const { port, play, bind, gatewayToken, certificate } = settings;
  const base = { host: bind, handler, certificate, connections, onRefusal };
  const opened: Opened[] = [];
  const add = (name: ListenerName, stack: string | undefined, listener: Listener): void => {
    closers.add(() => listener.destroy());
    opened.push({ name, stack, listener });
  };
  add('api', undefined, await startListener({ ...base, name: 'api', port, flag: '--port' }));
  for (const { stack, port } of settings.stackPorts) {
    const fixed = { kind: 'stack', stack } as const;
    const options = { ...base, name: 'stack', port, fixed, flag: '--stack-port' } as const;
    add('stack', stack, await startListener(options));
  }
  if (play === undefined) return opened;
  const { startPlay } = await import('./playground/start-play.ts');
  add('play', undefined, await startPlay(play, { gateway, gatewayToken, bind, certificate, connections }));
  return opened;
}

/** Information for operators: limits and usage follow the log's clock, but keys expire by this gateway's own clock. */
function clockCheck({ clockAheadMs, leapMs }: LimitExchange): Check {
  const seconds = Math.round(Math.abs(clockAheadMs) / 1000);
  const follows =
    leapMs === 0
      ? 'limits and usage follow; set it right'
      : 'only minutes of limits follow, because it has leapt; set the clock of its broker right';
  const detail =
    seconds === 0
      ? 'agrees with that of the log'
      : `${seconds} s ${clockAheadMs > 0 ? 'behind' : 'ahead of'} that of the log, which ${follows}`;
  return { name: 'clock', ok: true, detail };
}

/** Where no further usage can be kept, every request is refused. */
function usageCheck(isFull: boolean): Check {
  return isFull
    ? { name: 'usage', ok: false, detail: 'no further usage can be kept' }
    : { name: 'usage', ok: true };
}
