/** `headgate gateway`: one of any number of stateless gateways. */
import { hostname } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { requiredSecret, settingOf } from '../../shared/runtime/secrets.ts';
import {
  bindOption,
  type ConnectionOptions,
  certificateOf,
  connectionLimitsOf,
  distinctGatewayToken,
  insecureSnapshots,
  insecureSnapshotsOption,
  isOn,
  logOption,
  maxConnectionsOption,
  maxPerAddressOption,
  metricsBindOption,
  option,
  parseList,
  parsePort,
  parseSeconds,
  portOption,
  readyFileOption,
  type TlsOptions,
  tlsCertOption,
  tlsKeyOption,
  trustSignerOption,
} from './options.ts';

interface StackPort {
  readonly stack: string;
  readonly port: number;
}

interface Options extends TlsOptions, ConnectionOptions {
  readonly log: string;
  readonly data: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  readonly metricsBind: string;
  readonly metricsPort: number;
  readonly controlPlane: readonly string[];
  readonly sharedHost: string;
  readonly stackDomain: string;
  readonly stackPort: readonly StackPort[];
  readonly whenStale: 'fence' | 'serve';
  readonly drainDelay: number;
  readonly drainTimeout: number;
  readonly connectTimeout: number;
  readonly firstEventTimeout: number;
  readonly idleTimeout: number;
  readonly nodeCredentials?: string;
  readonly trustSigner: readonly string[];
  readonly insecureSnapshots?: boolean;
  readonly readyFile?: string;
}

function stackPort(value: string, before: readonly StackPort[]): StackPort[] {
  const [stack, port] = value.split('=');
  if (stack === undefined || port === undefined) throw new InvalidArgumentError('must be STACK=PORT');
  return [...before, { stack, port: parsePort(port) }];
}

export function gatewayCommand(program: Command): void {
  program
    .command('gateway')
    .description('run a gateway')
    .addOption(logOption())
    .addOption(option('--data <folder>', 'data folder of this process alone').makeOptionMandatory())
    .addOption(
      option('--control-plane <url>', 'offers snapshots to start from; may be repeated')
        .argParser(parseList)
        .default([]),
    )
    .addOption(insecureSnapshotsOption())
    .addOption(trustSignerOption())
    .addOption(option('--name <name>', 'name of this gateway, unique in the fleet').default(hostname()))
    .addOption(bindOption())
    .addOption(portOption('--port <port>', 'port of the API', 8080))
    .addOption(metricsBindOption())
    .addOption(portOption('--metrics-port <port>', 'port of health and metrics', 9464))
    .addOption(maxConnectionsOption())
    .addOption(maxPerAddressOption())
    .addOption(option('--shared-host <names>', 'names of the shared host').default('127.0.0.1,localhost'))
    .addOption(option('--stack-domain <name>', 'stack hosts are STACK.<name>').default('localhost'))
    .addOption(
      new Option('--stack-port <stack=port>', 'a port that serves one stack; may be repeated')
        .argParser(stackPort)
        .default([]),
    )
    .addOption(
      option('--when-stale <policy>', 'what to do with keys when freshness cannot be proven')
        .choices(['fence', 'serve'])
        .default('fence'),
    )
    .addOption(
      option('--drain-delay <seconds>', 'between losing readiness and taking no new connections')
        .argParser(parseSeconds)
        .default(5),
    )
    .addOption(
      option('--drain-timeout <seconds>', 'how long streams may go on at the end')
        .argParser(parseSeconds)
        .default(300),
    )
    .addOption(
      option('--connect-timeout <seconds>', 'for a connection to a node').argParser(parseSeconds).default(2),
    )
    .addOption(
      option('--first-event-timeout <seconds>', "for a node's first event")
        .argParser(parseSeconds)
        .default(300),
    )
    .addOption(
      option('--idle-timeout <seconds>', "between a node's data events").argParser(parseSeconds).default(60),
    )
    .addOption(option('--node-credentials <folder>', 'folder with one file a node credential'))
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .addOption(readyFileOption())
    .action(run);
}

async function run(options: Options): Promise<void> {
  const operatorToken = settingOf('HEADGATE_OPERATOR_TOKEN');
  const gatewayToken = distinctGatewayToken(operatorToken, requiredSecret('HEADGATE_GATEWAY_TOKEN'));
  const { startGateway } = await import('../../data-plane/main.ts');
  const { defaultForwardSettings } = await import('../../data-plane/forward/forward.ts');
  const { endOnUncaught } = await import('../../shared/runtime/fault.ts');
  const { createAccessLog, createLogger } = await import('../../shared/runtime/logger.ts');
  const { writeJsonAtomically } = await import('../../shared/runtime/ready-file.ts');
  const { closeOnSignal, closeWithParent } = await import('../../shared/runtime/shutdown.ts');
  const { renewOnHangup } = await import('../../shared/runtime/tls.ts');
  const certificate = certificateOf(options);
  const logger = createLogger('gateway');
  endOnUncaught(logger);
  const lower = (name: string): string => name.trim().toLowerCase();
  const gateway = await startGateway({
    logUrl: options.log,
    dataDir: options.data,
    name: options.name,
    bind: options.bind,
    port: options.port,
    metricsBind: options.metricsBind,
    metricsPort: options.metricsPort,
    connections: connectionLimitsOf(options),
    hosts: {
      shared: new Set(options.sharedHost.split(',').map(lower)),
      stackDomain: lower(options.stackDomain),
    },
    stackPorts: options.stackPort,
    whenStale: options.whenStale,
    controlPlanes: options.controlPlane,
    insecureSnapshots: isOn(insecureSnapshots, options.insecureSnapshots),
    trustedSigners: options.trustSigner,
    gatewayToken,
    nodeCredentialsDir: options.nodeCredentials,
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
  closeOnSignal(logger, () => gateway.close(), options.drainDelay + options.drainTimeout);
  closeWithParent(() => process.exit(0));
  renewOnHangup(certificate, logger);
  const ready = {
    api: gateway.api,
    metrics: gateway.metrics,
    stacks: gateway.stacks,
    pid: process.pid,
    name: options.name,
  };
  if (options.readyFile) writeJsonAtomically(options.readyFile, ready);
  process.send?.(ready);
}
