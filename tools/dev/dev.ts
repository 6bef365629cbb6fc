/** The `headgate dev` command, which runs the whole service on an embedded log. */
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import {
  addOptions,
  allowUnsigned,
  connectionLimits,
  flag,
  isOn,
  type OptionValues,
  option,
  parseCount,
  parsePort,
  parseUrl,
  pickShared,
  portOption,
  readPreviousToken,
  requireDistinctToken,
  usingOption,
} from '../../cli/processes/options.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import { listen } from '../../shared/runtime/listener.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { nodeCredentials } from '../../shared/runtime/node-credentials.ts';
import { persistentToken, readProtectedSetting, readSecret } from '../../shared/runtime/secrets.ts';
import { logLevel, readSetting } from '../../shared/runtime/settings.ts';
import type { RunningChild } from './dev-gateways.ts';

const firstSimulatedPort = 9001;
const portDefault = 8080;
/** Ports of the other listeners if the inference API has its default port. */
const standardPorts = { admin: 8081, console: 8082, play: 8083, stack: 8101, metrics: 9464 } as const;
const portMax = 65_535;
const portsBetweenGateways = 10;
const gatewaysMax = 100;
const noDemo = '--no-demo';

const parseNodes = (url: string, before: readonly string[] = []): string[] => [...before, parseUrl(url)];

const devOptions = {
  data: option('--data <folder>', 'data folder', { default: '.headgate' }),
  log: option('--log <url>', 'control log; by default an embedded log in the data folder'),
  gateways: option('--gateways <n>', 'number of gateways', { parse: parseGateways, default: 2 }),
  fleet: option('--fleet <file>', 'fleet file to apply instead of the demo fleet'),
  node: option('--node <url>', 'inference server for the pool, instead of simulated nodes; may be repeated', {
    parse: parseNodes,
    default: [],
  }),
  demo: flag(noDemo, 'start with an empty fleet'),
  ...pickShared('bind'),
  port: portOption('--port <port>', 'port of the first gateway', portDefault),
  adminPort: option(
    '--admin-port <port>',
    'port of the admin API; by default --port plus 1, or a free port with --port 0',
    { parse: parsePort },
  ),
  consolePort: option(
    '--console-port <port>',
    'port of the web console; by default --port plus 2, or a free port with --port 0',
    { parse: parsePort },
  ),
  ...pickShared('consoleHost', 'consoleUrl'),
  playPort: option(
    '--play-port <port>',
    "port of the first gateway's playground, if the fleet serves visitors; by default --port plus 3, or a free port with --port 0",
    { parse: parsePort },
  ),
  ...pickShared('playHost', 'trustedProxies', 'metricsBind'),
  metricsPort: option(
    '--metrics-port <port>',
    'first port for health and metrics; by default --port plus 1384, or free ports with --port 0',
    { parse: parsePort },
  ),
  ...pickShared(
    'maxConnections',
    'maxConnectionsPerAddress',
    'keepAlive',
    'nodeCredentials',
    'trustSigner',
    'allowUnsigned',
    'readyFile',
  ),
};
type Options = OptionValues<typeof devOptions>;

export function devCommand(program: Command): void {
  const command = program
    .command('dev')
    .description('run the whole service on one machine: control plane, gateways and simulated nodes');
  addOptions(command, devOptions).action(run);
}

/** Default port of another listener, moved by as much as --port so that a second fleet can run, or 0 (any) if too high. */
function following(port: number, other: keyof typeof standardPorts): number {
  const wanted = standardPorts[other] + port - portDefault;
  return port === 0 || wanted > portMax ? 0 : wanted;
}

function parseGateways(text: string): number {
  const count = parseCount(text);
  if (count > gatewaysMax) throw new InvalidArgumentError(`It must be 0 to ${gatewaysMax}.`);
  return count;
}

async function run(options: Options): Promise<void> {
  const { startControlPlane } = await import('../../control-plane/main.ts');
  const { openAll } = await import('../../shared/runtime/closers.ts');
  const { endOnUncaught } = await import('../../shared/runtime/fault.ts');
  const { createLogger } = await import('../../shared/runtime/logger.ts');
  const { lockDataFolder } = await import('../../shared/runtime/data-folder.ts');
  const { closeOnSignal } = await import('../../cli/processes/shutdown.ts');
  const logger = createLogger('dev', logLevel('warn'));
  endOnUncaught(logger);
  const dataDir = resolve(options.data);
  usingOption('--data', () => mkdirSync(dataDir, { recursive: true, mode: 0o700 }));
  await openAll(logger, async (closers) => {
    const folder = lockDataFolder(dataDir);
    closers.add(() => folder.release());
    // The fleet is closed after the control plane, so that the control plane does not log the nodes' end as a failure.
    const fleet: { close?: () => Promise<void> } = {};
    closers.add(async () => fleet.close?.());
    const operatorToken =
      readSecret('HEADGATE_OPERATOR_TOKEN') ?? persistentToken(join(dataDir, 'operator-token'), 'hgop');
    const gatewayToken = requireDistinctToken(
      operatorToken,
      readSecret('HEADGATE_GATEWAY_TOKEN') ?? persistentToken(join(dataDir, 'gateway-token'), 'hggw'),
    );
    let addresses = {};
    const logUrl = options.log ?? `sqlite:${join(dataDir, 'log')}`;
    const controlPlane = await startControlPlane({
      logUrl,
      dataDir: join(dataDir, 'control-plane'),
      name: 'control-plane-1',
      bind: options.bind,
      port: options.adminPort ?? following(options.port, 'admin'),
      portFlag: '--admin-port',
      metricsBind: options.metricsBind,
      metricsPort: chooseMetricsPort(options),
      connections: connectionLimits(options, logger),
      operatorToken,
      gatewayToken,
      previousGatewayToken: readPreviousToken(operatorToken),
      signingKeyFile: readProtectedSetting('HEADGATE_SIGNING_KEY'),
      allowUnsigned: isOn(allowUnsigned, options.allowUnsigned),
      trustedSigners: options.trustSigner,
      nodeCredentials: nodeCredentials(options.nodeCredentials),
      console: { ...consoleOptions(options), addresses: () => addresses },
      logger,
    });
    closers.add(() => controlPlane.close());
    closeOnSignal(logger, () => closers.close());
    const { admin, console = '' } = controlPlane;
    const base = { dataDir, logUrl, operatorToken, gatewayToken, admin, console, logger };
    await bringUp(options, base, fleet, closers, (found) => {
      addresses = found;
    });
  });
}

const chooseMetricsPort = ({ metricsPort, port }: Options): number =>
  metricsPort ?? following(port, 'metrics');

function hasDemo({ demo }: Options): boolean {
  return !isOn(noDemo, demo ? undefined : true);
}

/** Whether only this machine can reach listeners at the address. */
function isLoopback(bind: string): boolean {
  return /^(?:127\.|::1$|localhost$)/.test(bind);
}

/** Host names that browsers may use. If other machines can reach the fleet, they include the name of this machine. */
function browserNames(bind: string, names: readonly string[]): readonly string[] {
  return isLoopback(bind) ? names : [...names, hostname()];
}

/** Options of the console. The buttons that sign in as a member are offered only if no other machine can reach the page. */
function consoleOptions(options: Options) {
  const { bind, port, consolePort, consoleHost, consoleUrl, fleet } = options;
  const isLocal = isLoopback(bind) && consoleHost.length === 0 && consoleUrl === undefined;
  return {
    bind,
    port: consolePort ?? following(port, 'console'),
    hosts: browserNames(bind, consoleHost),
    url: consoleUrl,
    demo: isLocal && hasDemo(options) && fleet === undefined,
  };
}

interface Base {
  readonly dataDir: string;
  readonly logUrl: string;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  readonly admin: string;
  readonly console: string;
  readonly logger: Logger;
}

async function bringUp(
  options: Options,
  base: Base,
  running: { close?: () => Promise<void> },
  closers: Closers,
  onAddresses: (addresses: object) => void,
): Promise<void> {
  const { DevAdmin } = await import('./dev-admin.ts');
  const { bringUpFleet } = await import('./dev-fleet.ts');
  const { demoKeys } = await import('./dev-secrets.ts');
  const { announce } = await import('./dev-announce.ts');
  const admin = new DevAdmin(base.admin, base.operatorToken);
  const fleet = await bringUpFleet(admin, {
    fleetFile: options.fleet,
    engines: options.node,
    demo: hasDemo(options),
    firstPort: options.port === 0 ? 0 : firstSimulatedPort,
    controlPlane: base.admin,
    dataDir: base.dataDir,
  });
  running.close = () => fleet.close();
  const keys = await demoKeys(admin, join(base.dataDir, 'demo-keys.json'));
  const stacks = await admin.stacks();
  const gateways = await startGateways(
    options,
    base,
    { stackIds: stacks.map(({ id }) => id), visitors: (await admin.exportFleet()).anonymous !== undefined },
    closers,
  );
  const urls = gateways.flatMap((gateway) => gateway.stacks.map(({ stack, url }) => [stack, url] as const));
  onAddresses({ shared: gateways[0]?.api, stacks: Object.fromEntries(urls) });
  await nodesUp(admin);
  await admin.confirmed(await admin.position(), 30);
  announce({
    ...base,
    ...(options.readyFile !== undefined && { readyFile: options.readyFile }),
    models: fleet.models,
    gateways,
    stacks,
    keys,
    organisations: await admin.organisations(),
    nodes: await admin.nodes(),
    signIn: (await admin.consoleLink()).url,
  });
}

async function startGateways(
  options: Options,
  base: Base,
  { stackIds, visitors }: { readonly stackIds: readonly string[]; readonly visitors: boolean },
  closers: Closers,
): Promise<RunningChild[]> {
  const { startChild } = await import('./dev-gateways.ts');
  const numbered = (first: number, step: number, index: number): number =>
    first === 0 ? 0 : first + step * index;
  const { max, perAddress } = connectionLimits(options, base.logger);
  const ofAll = {
    log: base.logUrl,
    controlPlane: [base.admin],
    nodeCredentials: options.nodeCredentials,
    trustSigner: options.trustSigner,
    bind: options.bind,
    metricsBind: options.metricsBind,
    maxConnections: max,
    maxConnectionsPerAddress: perAddress,
    keepAlive: options.keepAlive,
    consoleUrl: options.consoleUrl ?? base.console,
    playHost: browserNames(options.bind, options.playHost),
    // Accept any host name, because clients on other machines or outside a container may use names that are unknown here.
    sharedHost:
      readSetting('HEADGATE_SHARED_HOST') ??
      (isLoopback(options.bind) ? `127.0.0.1,localhost,${options.bind}` : '*'),
    trustedProxies: options.trustedProxies,
    ...{ drainDelay: 0, drainTimeout: 5 },
    // Plain HTTP is safe here, because the control plane runs on this machine.
    insecureSnapshots: true as const,
  };
  const playDefault = visitors ? following(options.port, 'play') : undefined;
  const firstPlayPort = options.playPort ?? playDefault;
  const plans = Array.from({ length: options.gateways }, (_, index) => ({
    name: `gateway-${index + 1}`,
    data: join(base.dataDir, `gateway-${index + 1}`),
    port: numbered(options.port, portsBetweenGateways, index),
    metricsPort: numbered(chooseMetricsPort(options), 1, index + 1),
    playPort: firstPlayPort === undefined ? undefined : numbered(firstPlayPort, portsBetweenGateways, index),
    stackPort: [] as string[],
  }));
  const planned = new Set(plans.flatMap(({ port, metricsPort, playPort }) => [port, metricsPort, playPort]));
  for (const [at, stack] of plans.length === 0 ? [] : stackIds.entries()) {
    const wanted = numbered(following(options.port, 'stack'), 1, at);
    const isFree = !planned.has(wanted) && (await canListen(options.bind, wanted));
    plans[0]?.stackPort.push(`${stack}=${isFree ? wanted : 0}`);
  }
  const onEnd = (name: string, how: string) => process.stderr.write(`${name} ended (${how})\n`);
  return Promise.all(
    plans.map((plan) =>
      startChild({ ...ofAll, ...plan }, { gatewayToken: base.gatewayToken, onEnd }, closers),
    ),
  );
}

/** Whether a port is free. A stack's port that is in use is replaced by a free one, because no option sets these ports. */
async function canListen(host: string, port: number): Promise<boolean> {
  if (port > portMax) return false;
  const server = createServer();
  try {
    await listen(server, { host, port }, { bind: '--bind', port: '--port' });
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

/** Waits for the first health reports of the nodes, so that the printed commands work. */
async function nodesUp(admin: { nodes(): Promise<readonly { up: boolean }[]> }): Promise<void> {
  const until = performance.now() + 10_000;
  while (performance.now() < until && !(await admin.nodes()).every(({ up }) => up))
    await new Promise((wake) => setTimeout(wake, 100));
}
