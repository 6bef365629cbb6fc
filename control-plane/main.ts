/**
 * Composition root of a control-plane replica: any number of equal ones may run over one log.
 * It folds the log, runs commands, monitors nodes, and publishes its status.
 */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Commit, controlTopic } from '../schemas/events/commit.ts';
import { checkpointAuthor, replicaAuthor } from '../schemas/shapes.ts';
import type { ControlLog } from '../shared/log/core/control-log.ts';
import { loadSigner, type Signer } from '../shared/log/core/signing.ts';
import { type TrustedSigners, trustedSigners } from '../shared/log/core/trust.ts';
import { observeTopics } from '../shared/log/observe-topics.ts';
import { openLog } from '../shared/log/open-log.ts';
import { type Closers, openAll } from '../shared/runtime/closers.ts';
import { type ConnectionLimits, Connections } from '../shared/runtime/connections.ts';
import { lockDataFolder } from '../shared/runtime/data-folder.ts';
import { countStart, type FolderStart } from '../shared/runtime/folder-start.ts';
import { loopback, urlOf } from '../shared/runtime/listener.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { CredentialSource } from '../shared/runtime/node-credentials.ts';
import { observeResources } from '../shared/runtime/process-metrics.ts';
import type { Certificate } from '../shared/runtime/tls.ts';
import { foldVersion } from '../shared/snapshot/fold.ts';
import { FoldMetrics } from '../shared/snapshot/fold-metrics.ts';
import { Replicator } from '../shared/snapshot/replicator.ts';
import type { Snapshot } from '../shared/snapshot/snapshot.ts';
import { createAdminApp } from './admin-api/app.ts';
import { callerBounds } from './admin-api/caller-bounds.ts';
import type { AdminContext } from './admin-api/context.ts';
import { daysUntil } from './admin-api/doctor-facts.ts';
import { Drain } from './admin-api/drain.ts';
import { startHealth } from './admin-api/health.ts';
import { openHttpApp } from './admin-api/http-app.ts';
import { CommandWriter, createLog } from './commands/command-writer.ts';
import { EndedKeys } from './commands/ended-keys.ts';
import { checkSigner } from './commands/log-signing.ts';
import type { ConsoleSettings } from './console-server/start-console.ts';
import { gatewayAgent } from './gateways/ask-decisions.ts';
import { StagedWatch } from './gateways/change-watch.ts';
import { openFleetCounters } from './gateways/fleet-counters.ts';
import { type FleetGauges, openFleetGauges } from './gateways/fleet-gauges.ts';
import { countedTokens, type OpenedFleet, openFleet } from './gateways/open-fleet.ts';
import { signingView } from './gateways/signing-view.ts';
import type { StatusBoard } from './gateways/status-board.ts';
import { HistoryThread } from './history/open-history.ts';
import { PastStates } from './history/past.ts';
import type { NodeIntervals } from './nodes/intervals.ts';
import { startNodeWatch } from './nodes/node-watch.ts';
import { SignInLinks } from './sessions/sign-in-links.ts';
import { foldedToEnd, openState } from './state/open-state.ts';
import { startVerification } from './state/verification.ts';
import { statusPublisher } from './status-publisher.ts';
import { openUsage } from './usage/open-usage.ts';
import type { UsageFile } from './usage/usage-file.ts';
import { countUsageFaults, countUsageRows } from './usage/usage-metrics.ts';

export interface ControlPlaneSettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  /** The option of the port; another where a process has several ports. */
  readonly portFlag?: string;
  /** Of health and metrics; loopback unless given. */
  readonly metricsBind?: string | undefined;
  readonly metricsPort: number;
  /** Of the admin API. */
  readonly connections?: Partial<ConnectionLimits> | undefined;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  /** Also accepted, while gateways change over. */
  readonly previousGatewayToken?: string | undefined;
  /** PEM file with an Ed25519 private key; signs the log. */
  readonly signingKeyFile?: string | undefined;
  /** Start even if a key is given and the log is not signed. */
  readonly allowUnsigned?: boolean | undefined;
  /** Fingerprints, public keys or PEM files: one of them must have created the log. None: any log is accepted. */
  readonly trustedSigners?: readonly string[] | undefined;
  /** Folder with one file for each node credential. */
  readonly nodeCredentials?: CredentialSource;
  /** Between the loss of readiness and the end of new connections, seconds; 0 unless it is given. */
  readonly drainDelaySeconds?: number;
  /** How long requests in flight may run after that, seconds. */
  readonly drainTimeoutSeconds?: number;
  /** The console for people; none where it is left out. */
  readonly console?: ConsoleSettings | undefined;
  /** Of every listener. */
  readonly certificate?: Certificate | undefined;
  /** Each completed request is kept for so many days; its sums always. */
  readonly usageKeepDays?: number | undefined;
  /** Of history.db, above which its oldest past is cut. */
  readonly historyBytesMax?: number | undefined;
  /** How long after its end a key is forgotten; 90 days unless it is given, never where it is infinite. */
  readonly forgetKeysAfterMs?: number | undefined;
  /** The defaults where they are left out. */
  readonly nodeIntervals?: Partial<NodeIntervals> | undefined;
  /** See gatewayAgent. */
  readonly gatewayTlsName?: string | undefined;
  /** See AdminContext. */
  readonly askTimeoutMs?: number | undefined;
  readonly logger: Logger;
}

export interface ControlPlane {
  /** Base address of the admin API, without its prefix. */
  readonly admin: string;
  readonly metrics: string;
  /** Address of the console, where there is one. */
  readonly console?: string | undefined;
  /** Drains, then closes. */
  close(): Promise<void>;
}

/** Commits between two digests of the whole state in the log. */
const commitsPerCheckpoint = 1000;
const drainTimeoutSecondsDefault = 5;

export function startControlPlane(settings: ControlPlaneSettings): Promise<ControlPlane> {
  const { logger } = settings;
  return openAll(logger, async (closers) => {
    const folder = lockDataFolder(settings.dataDir);
    closers.add(() => folder.release());
    const signer = settings.signingKeyFile === undefined ? undefined : loadSigner(settings.signingKeyFile);
    const trusted = trustedSigners(settings.trustedSigners);
    const log = await openLog(settings.logUrl, { topic: controlTopic });
    closers.add(() => log.close());
    // A later start of this folder proves that the replica of the earlier one has ended.
    const start = countStart(settings.dataDir);
    const gauges = openFleetGauges(settings);
    closers.add(() => gauges.stop());
    gauges.start();
    const fleet = await openFleet(settings, closers, () => gauges.logNow());
    const state = await startState(settings, log, { signer, trusted, start, gauges, ...fleet });
    closers.add(() => state.snapshot.close());
    closers.add(() => state.replicator.stop());
    const { drain, ...addresses } = await serve(settings, log, state, closers);
    logger.info({ ...addresses, position: state.snapshot.seq }, 'control plane started');
    const close = async (): Promise<void> => {
      await drain();
      await closers.close();
    };
    return { ...addresses, close };
  });
}

interface StateParts extends OpenedFleet {
  readonly signer: Signer | undefined;
  readonly trusted: TrustedSigners | undefined;
  readonly start: FolderStart;
  readonly gauges: FleetGauges;
}

interface State extends StateParts {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly writer: CommandWriter;
  readonly listeners: Set<(commits: readonly Commit[]) => void>;
  readonly metrics: FoldMetrics;
}

async function startState(
  settings: ControlPlaneSettings,
  log: ControlLog,
  parts: StateParts,
): Promise<State> {
  const { logger } = settings;
  const { signer, trusted, board, gauges } = parts;
  const snapshot = await openState(join(settings.dataDir, 'state.db'), log, logger);
  const listeners: State['listeners'] = new Set();
  const metrics = new FoldMetrics();
  const replicator: Replicator = new Replicator({
    snapshot,
    log,
    trusted,
    waitsForDisk: true,
    onCommits: (commits, seconds) => {
      metrics.folded(commits, seconds, replicator.freshness.proven);
      for (const listener of listeners) listener(commits);
    },
    onFault: (error) => logger.fatal({ err: error }, 'the fold has stopped; see docs/recover.md'),
    onReachabilityChange: (reachable, error) =>
      logger.warn({ reachable, reason: error?.message }, 'reachability of the control log'),
  });
  try {
    replicator.start();
    await createLog(
      { snapshot, replicator, log, signer, trusted },
      `log-${randomUUID()}`,
      replicaAuthor(settings.name),
    );
    await foldedToEnd(replicator, snapshot);
    checkSigner(snapshot.head.signers, signer, settings.allowUnsigned);
    const readers = () => board.readers();
    const signing = () => signingView({ replica: settings.name, snapshot, signer, board });
    const now = () => gauges.logNow();
    const writer = new CommandWriter({ snapshot, replicator, log, signer, readers, signing, now });
    metrics.watch(() => ({ snapshot, replicator }));
    return { ...parts, snapshot, replicator, writer, listeners, metrics };
  } catch (error) {
    await replicator.stop();
    snapshot.close();
    throw error;
  }
}

async function serve(
  settings: ControlPlaneSettings,
  log: ControlLog,
  state: State,
  closers: Closers,
): Promise<{ admin: string; metrics: string; console: string | undefined; drain: () => Promise<void> }> {
  const { logger, name } = settings;
  const { snapshot, replicator, writer, board, signer } = state;
  const publisher = statusPublisher(settings, state);
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
  state.listeners.add(nodes.onCommits);
  watchCommits(state, board, logger);
  startVerification(snapshot, closers, logger);
  const { forgetKeysAfterMs: forgetAfterMs } = settings;
  const endedKeys = new EndedKeys({ name, snapshot, replicator, writer, logger, forgetAfterMs });
  closers.add(() => endedKeys.stop());
  endedKeys.start();
  const drain = new Drain();
  const { registry } = state.metrics;
  observeResources(registry, settings);
  closers.add(observeTopics({ log, registry, logger }));
  const connections = new Connections({ registry, logger, limits: settings.connections });
  const { app, console, usageFile } = await listen(
    settings,
    log,
    state,
    { board, ...nodes, drain, connections },
    closers,
  );
  // Before the listener closes their sockets: an agent that is sent away does not count as lost.
  closers.add(() => nodes.agents.stop());
  const changes = new StagedWatch({
    ...{ name, snapshot, writer, board, traffic: state.traffic },
    ...{ registry, logger },
  });
  closers.add(() => changes.stop());
  const health = await startHealth({
    replica: name,
    ...{ log, snapshot, board, replicator, signer },
    agents: nodes.agents,
    usageFile: () => usageFile.state,
    metrics: state.metrics,
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
    admin: urlOf(app.server.address() as AddressInfo, settings.certificate !== undefined),
    metrics: health.url,
    console,
    drain: () => drain.run(app.server, times, () => nodes.agents.stop()),
  };
}

/** What `doctor` checks of the admin API's listener. */
function adminListener({ bind, certificate }: ControlPlaneSettings): ReturnType<AdminContext['listener']> {
  return {
    name: 'admin',
    isLoopback: /^(?:127\.|::1$|localhost$)/.test(bind),
    daysLeft: daysUntil(certificate?.validUntil),
  };
}

async function listen(
  settings: ControlPlaneSettings,
  log: ControlLog,
  state: State,
  parts: Pick<AdminContext, 'board' | 'agents' | 'live' | 'drain'> & { readonly connections: Connections },
  closers: Closers,
): Promise<{
  app: Awaited<ReturnType<typeof createAdminApp>>;
  console: string | undefined;
  usageFile: UsageFile;
}> {
  const { logger, operatorToken, gatewayToken, previousGatewayToken, certificate } = settings;
  const { snapshot, replicator, writer, fleetMemory, traffic, metrics, signer } = state;
  const usage = await openUsage({
    ...{ logUrl: settings.logUrl, dataDir: settings.dataDir, logger, keepRows: true },
    usageKeepDays: settings.usageKeepDays,
    tokens: countedTokens(settings),
    onApplied: (applied) => counters.onApplied(applied),
  });
  closers.add(() => usage.close());
  countUsageRows(metrics.registry, usage.counts);
  countUsageFaults(metrics.registry, usage.file);
  const counters = openFleetCounters(settings, usage.reader, metrics.registry);
  closers.add(() => counters.stop());
  counters.start();
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
    gauges: state.gauges,
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
      state.listeners.add(listener);
      return () => state.listeners.delete(listener);
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

/** Every past state, on a thread of its own. */
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

/** After each fold: the digest is stored for comparison, and every 1000 commits written to the log. */
function watchCommits(state: State, board: StatusBoard, logger: Logger): void {
  const { snapshot, writer } = state;
  let checkpointAt = snapshot.seq + commitsPerCheckpoint;
  state.listeners.add(() => {
    board.addOwnDigest(snapshot.seq, snapshot.digest());
    if (snapshot.seq < checkpointAt) return;
    checkpointAt = snapshot.seq + commitsPerCheckpoint;
    const data = () => ({ foldVersion, digests: snapshot.digests() });
    writer
      .write(`checkpoint-${randomUUID()}`, checkpointAuthor, () => [{ type: 'checkpoint', data: data() }])
      .catch((error: unknown) => logger.warn({ err: error }, 'checkpoint not written'));
  });
  board.addOwnDigest(snapshot.seq, snapshot.digest());
}
