/** `headgate gateway` runs a stateless gateway. Any number of them may run. */
import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { type Command, InvalidArgumentError } from 'commander';
import { nodeCredentials } from '../../shared/runtime/node-credentials.ts';
import { readSecret, requiredSecret, SecretUnusable } from '../../shared/runtime/secrets.ts';
import { readSetting } from '../../shared/runtime/settings.ts';
import {
  addOptions,
  connectionLimits,
  insecureSnapshots,
  isOn,
  type OptionValues,
  option,
  parseAdvertised,
  parsePort,
  parseUrls,
  pickShared,
  portOption,
  reportMemoryLimit,
  requireDistinctToken,
  secondsOption,
} from './options.ts';
import { runProcess } from './run-process.ts';

type StalePolicy = 'fence' | 'serve';

interface StackPort {
  readonly stack: string;
  readonly port: number;
}

function parseStackPorts(value: string, before: readonly StackPort[] = []): StackPort[] {
  const added = value.split(',').map((pair) => {
    const [stack, port] = pair.split('=');
    if (!stack || port === undefined) throw new InvalidArgumentError('It must be STACK=PORT.');
    return { stack, port: parsePort(port) };
  });
  return [...before, ...added];
}

const originForm = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*,]+$/;

/** Parses CORS origins, written as browsers send them. Refuses wildcards and `null`, which would also admit unknown sites. */
function parseCorsOrigins(value: string, before: readonly string[] = []): string[] {
  const added = value.split(',').map((text) => {
    const origin = text.trim();
    const isWeb = /^https?:/.test(origin);
    if (originForm.test(origin) && (!isWeb || isSameOrigin(origin))) return origin;
    throw new InvalidArgumentError('It must be an origin such as https://app.example.com, without a path.');
  });
  return [...before, ...added];
}

/** Whether the origin is written as browsers send it: in lower case and without a default port. */
function isSameOrigin(origin: string): boolean {
  return URL.canParse(origin) && new URL(origin).origin === origin;
}

/** Parses how many decisions are recorded: one in N, or 0 for none. */
function parseDecisionsKept(text: string): number {
  if (text === 'all') return 1;
  if (text === 'off') return 0;
  const oneIn = Number(text);
  if (!/^[1-9][0-9]{0,6}$/.test(text)) throw new InvalidArgumentError('It must be all, off or a number N.');
  return oneIn;
}

export const gatewayOptions = {
  ...pickShared('log', 'data'),
  controlPlane: option(
    '--control-plane <url>',
    'control plane to fetch a first snapshot from; may be repeated',
    { parse: parseUrls, default: [] },
  ),
  ...pickShared('insecureSnapshots', 'trustSigner', 'name', 'bind'),
  port: portOption('--port <port>', 'port of the API', 8080),
  ...pickShared('metricsBind', 'metricsPort'),
  advertise: option(
    '--advertise <url|host>',
    "host or URL at which control planes reach the health and metrics listener; by default its address or this machine's name",
    { parse: parseAdvertised },
  ),
  ...pickShared('maxConnections', 'maxConnectionsPerAddress', 'keepAlive'),
  sharedHost: option(
    '--shared-host <names>',
    'names of the shared host, separated by commas; * matches every name that does not begin with a stack id',
    { default: '127.0.0.1,localhost' },
  ),
  stackDomain: option(
    '--stack-domain <name>',
    'domain of the stack hosts; each stack has the host STACK.<name>',
    { default: 'localhost' },
  ),
  stackPort: option(
    '--stack-port <stack=port>',
    'port that serves one stack, whatever the Host header is; may be repeated',
    { parse: parseStackPorts, default: [] },
  ),
  corsOrigin: option<readonly string[]>(
    '--cors-origin <origin>',
    'origin of web pages that may call the API; may be repeated',
    { parse: parseCorsOrigins, default: [] },
  ),
  playPort: option(
    '--play-port <port>',
    'port of the playground; without this option there is no playground',
    {
      parse: parsePort,
    },
  ),
  ...pickShared('playHost', 'consoleUrl', 'trustedProxies'),
  whenStale: option<StalePolicy>(
    '--when-stale <policy>',
    'while freshness cannot be proven, fence refuses keys and serve accepts them',
    { choices: ['fence', 'serve'], default: 'fence' },
  ),
  ...pickShared('drainDelay', 'drainTimeout'),
  connectTimeout: secondsOption('--connect-timeout <seconds>', 'time limit for connecting to a node', 2),
  firstEventTimeout: secondsOption(
    '--first-event-timeout <seconds>',
    'time limit for the first event of a stream from a node, or for its whole response if it is not streamed',
    300,
  ),
  idleTimeout: secondsOption(
    '--idle-timeout <seconds>',
    'maximum time between two events of a stream from a node',
    60,
  ),
  decisions: option(
    '--decisions <all|N|off>',
    'decisions to record for explanations: all, one in N of completed requests (and every refusal), or off',
    { parse: parseDecisionsKept, default: 1, shown: 'all' },
  ),
  cacheSalt: option<'on' | 'off'>(
    '--cache-salt <on|off>',
    'whether organisations have separate prefix caches on nodes of the pool',
    { choices: ['on', 'off'], default: 'on' },
  ),
  ...pickShared('nodeCredentials', 'tlsCert', 'tlsKey', 'readyFile'),
};
type Options = OptionValues<typeof gatewayOptions>;

export function gatewayCommand(program: Command): void {
  const command = program
    .command('gateway')
    .description('run a gateway, which serves the requests of clients');
  addOptions(command, gatewayOptions).action(run);
}

function playSettings({ playPort: port, playHost: hosts, consoleUrl, trustedProxies }: Options) {
  return port === undefined ? undefined : { port, hosts, consoleUrl, trustedProxies };
}

/** Reads the operator token if there is one. A gateway does not need it, so an invalid one is not an error. */
function readOperatorToken(): string | undefined {
  try {
    return readSecret('HEADGATE_OPERATOR_TOKEN');
  } catch (error) {
    if (error instanceof SecretUnusable) return readSetting('HEADGATE_OPERATOR_TOKEN');
    throw error;
  }
}

async function run(options: Options): Promise<void> {
  // On a single core, parallel garbage collection is slower, because its threads compete with the thread that waits for them.
  if (availableParallelism() === 1) setFlagsFromString('--no-parallel-scavenge');
  const gatewayToken = requireDistinctToken(readOperatorToken(), requiredSecret('HEADGATE_GATEWAY_TOKEN'));
  const { startGateway } = await import('../../data-plane/main.ts');
  const { defaultForwardSettings } = await import('../../data-plane/nodes/forward.ts');
  const { createAccessLog } = await import('../../shared/runtime/logger.ts');
  const { closeWithParent } = await import('./shutdown.ts');
  const lower = (name: string): string => name.trim().toLowerCase();
  closeWithParent(() => process.exit(0));
  const ready = await runProcess('gateway', options, async ({ logger, certificate }) => {
    reportMemoryLimit(logger);
    const gateway = await startGateway({
      logUrl: options.log,
      dataDir: options.data,
      name: options.name,
      bind: options.bind,
      port: options.port,
      metricsBind: options.metricsBind,
      metricsPort: options.metricsPort,
      advertise: options.advertise,
      connections: connectionLimits(options, logger),
      hosts: {
        shared: new Set(options.sharedHost.split(',').map(lower)),
        stackDomain: lower(options.stackDomain),
      },
      stackPorts: options.stackPort,
      corsOrigins: new Set(options.corsOrigin),
      play: playSettings(options),
      whenStale: options.whenStale,
      controlPlanes: options.controlPlane,
      insecureSnapshots: isOn(insecureSnapshots, options.insecureSnapshots),
      trustedSigners: options.trustSigner,
      gatewayToken,
      decisionsOneIn: options.decisions,
      saltsCaches: options.cacheSalt === 'on',
      nodeCredentials: nodeCredentials(options.nodeCredentials),
      connectMs: options.connectTimeout * 1000,
      forwarding: {
        ...defaultForwardSettings,
        firstEventMs: options.firstEventTimeout * 1000,
        wholeAnswerMs: options.firstEventTimeout * 1000,
        betweenEventsMs: options.idleTimeout * 1000,
        betweenBytesMs: options.idleTimeout * 1000,
      },
      drainDelaySeconds: options.drainDelay,
      drainTimeoutSeconds: options.drainTimeout,
      certificate,
      logger,
      accessLog: createAccessLog(logger, 'gateway'),
    });
    const { api, metrics, stacks, play } = gateway;
    return {
      ready: { api, metrics, stacks, ...(play !== undefined && { play }) },
      name: options.name,
      drainSeconds: options.drainDelay + options.drainTimeout,
      close: () => gateway.close(),
    };
  });
  process.send?.(ready);
}
