/** `headgate control-plane`: one of any number of equal replicas. */
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { requiredSecret, settingOf } from '../../shared/runtime/secrets.ts';
import {
  allowUnsigned,
  allowUnsignedOption,
  bindOption,
  type ConnectionOptions,
  certificateOf,
  connectionLimitsOf,
  distinctGatewayToken,
  isOn,
  logOption,
  maxConnectionsOption,
  maxPerAddressOption,
  metricsBindOption,
  option,
  parseSeconds,
  portOption,
  previousGatewayToken,
  readyFileOption,
  type TlsOptions,
  tlsCertOption,
  tlsKeyOption,
  trustSignerOption,
} from './options.ts';

interface Options extends TlsOptions, ConnectionOptions {
  readonly log: string;
  readonly data: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  readonly metricsBind: string;
  readonly metricsPort: number;
  readonly drainDelay: number;
  readonly drainTimeout: number;
  readonly nodeCredentials?: string;
  readonly readyFile?: string;
  readonly trustSigner: readonly string[];
  readonly allowUnsigned?: boolean;
}

export function controlPlaneCommand(program: Command): void {
  program
    .command('control-plane')
    .description('run a control-plane replica')
    .addOption(logOption())
    .addOption(option('--data <folder>', 'data folder of this process alone').makeOptionMandatory())
    .addOption(option('--name <name>', 'name of this replica, unique in the fleet').default(hostname()))
    .addOption(bindOption())
    .addOption(portOption('--port <port>', 'port of the admin API', 8081))
    .addOption(metricsBindOption())
    .addOption(portOption('--metrics-port <port>', 'port of health and metrics', 9464))
    .addOption(
      option('--drain-delay <seconds>', 'between losing readiness and taking no new connections')
        .argParser(parseSeconds)
        .default(5),
    )
    .addOption(
      option('--drain-timeout <seconds>', 'how long requests may go on at the end')
        .argParser(parseSeconds)
        .default(300),
    )
    .addOption(maxConnectionsOption())
    .addOption(maxPerAddressOption())
    .addOption(option('--node-credentials <folder>', 'folder with one file a node credential'))
    .addOption(trustSignerOption())
    .addOption(allowUnsignedOption())
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .addOption(readyFileOption())
    .action(run);
}

async function run(options: Options): Promise<void> {
  const operatorToken = requiredSecret('HEADGATE_OPERATOR_TOKEN');
  const gatewayToken = distinctGatewayToken(operatorToken, requiredSecret('HEADGATE_GATEWAY_TOKEN'));
  const { startControlPlane } = await import('../../control-plane/main.ts');
  const { endOnUncaught } = await import('../../shared/runtime/fault.ts');
  const { createLogger } = await import('../../shared/runtime/logger.ts');
  const { writeJsonAtomically } = await import('../../shared/runtime/ready-file.ts');
  const { closeOnSignal } = await import('../../shared/runtime/shutdown.ts');
  const { renewOnHangup } = await import('../../shared/runtime/tls.ts');
  const certificate = certificateOf(options);
  const logger = createLogger('control-plane');
  endOnUncaught(logger);
  const controlPlane = await startControlPlane({
    logUrl: options.log,
    dataDir: options.data,
    name: options.name,
    bind: options.bind,
    port: options.port,
    metricsBind: options.metricsBind,
    metricsPort: options.metricsPort,
    connections: connectionLimitsOf(options),
    operatorToken,
    gatewayToken,
    previousGatewayToken: previousGatewayToken(operatorToken),
    signingKeyFile: settingOf('HEADGATE_SIGNING_KEY'),
    allowUnsigned: isOn(allowUnsigned, options.allowUnsigned),
    trustedSigners: options.trustSigner,
    nodeCredentialsDir: options.nodeCredentials,
    drainDelaySeconds: options.drainDelay,
    drainTimeoutSeconds: options.drainTimeout,
    certificate,
    logger,
  });
  closeOnSignal(logger, () => controlPlane.close(), options.drainDelay + options.drainTimeout);
  renewOnHangup(certificate, logger);
  const { admin, metrics } = controlPlane;
  if (options.readyFile)
    writeJsonAtomically(options.readyFile, { admin, metrics, pid: process.pid, name: options.name });
}
