/** Opens the parts of a gateway that handle requests. Each part is opened after those on which it depends. */
import { measureCounterFeed } from '../shared/limits/counter-feed-metrics.ts';
import { BodyBudget } from '../shared/runtime/byte-budget.ts';
import { wallClockMs } from '../shared/runtime/clock.ts';
import type { Closers } from '../shared/runtime/closers.ts';
import { endOnFault } from '../shared/runtime/fault.ts';
import { accessLogIn, type Logger } from '../shared/runtime/logger.ts';
import type { FileShortage } from '../shared/runtime/open-files.ts';
import { BodyWorker } from './body-worker/body-worker.ts';
import { type LimitExchange, openLimitExchange } from './limits/limit-exchange.ts';
import { Affinity } from './nodes/affinity.ts';
import { createPromptCounter } from './nodes/count-tokens.ts';
import { NodeLoad } from './nodes/load.ts';
import { NodePools } from './nodes/node-pools.ts';
import type { DecisionJournal } from './records/decision-journal.ts';
import { RequestRecords } from './records/request-records.ts';
import { LocalCounters } from './request/counters.ts';
import type { Gateway } from './request/gateway.ts';
import type { GatewaySettings } from './settings.ts';
import type { GatewayState } from './snapshot/follow-log.ts';
import { TenantSecrets } from './surfaces/common/tenant-secrets.ts';
import { passTrace } from './surfaces/common/trace-context.ts';
import { openTraceExport } from './telemetry/export-traces.ts';
import { Telemetry } from './telemetry/telemetry.ts';
import type { TrafficReports } from './telemetry/traffic-reports.ts';
import { openMeter } from './usage/open-meter.ts';

export interface Observers {
  readonly registry: ConstructorParameters<typeof Telemetry>[0];
  readonly journal: DecisionJournal | undefined;
  readonly files: FileShortage;
  readonly traffic: TrafficReports;
  readonly requests: { open: number };
}

export interface OpenedGateway {
  readonly gateway: Gateway;
  readonly exchange: LimitExchange;
  readonly telemetry: Telemetry;
}

export async function openGateway(
  settings: GatewaySettings,
  state: GatewayState,
  { registry, journal, files, traffic, requests }: Observers,
  closers: Closers,
): Promise<OpenedGateway> {
  const { logger } = settings;
  const { lookup } = state;
  const usage = await openMeter({
    ...{ logUrl: settings.logUrl, dataDir: settings.dataDir, name: settings.name, lookup, logger },
    ...{ gatewayToken: settings.gatewayToken, controlPlanes: settings.controlPlanes },
    // End the process, because answers that cannot be billed must not be sent. A supervisor is expected to restart it.
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
    begin: () => void requests.open++,
    observe: (record) => {
      requests.open--;
      records.add(record, telemetry.observe(record));
      traffic.add(record);
    },
    observeEarly: (refused) => {
      records.addEarly(refused);
      traffic.addEarly(refused);
    },
  };
  return { gateway, exchange, telemetry };
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
