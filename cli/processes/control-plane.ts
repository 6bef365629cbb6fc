/** `headgate control-plane`: one of any number of equal replicas. */
import { hostname } from 'node:os';
import type { Command } from 'commander';
import {
  bindOption,
  type ConnectionOptions,
  certificateOf,
  connectionLimitsOf,
  logOption,
  maxConnectionsOption,
  maxPerAddressOption,
  metricsBindOption,
  option,
  portOption,
  readyFileOption,
  requiredSecret,
  type TlsOptions,
  tlsCertOption,
  tlsKeyOption,
} from './options.ts';

interface Options extends TlsOptions, ConnectionOptions {
  readonly log: string;
  readonly data: string;
  readonly name: string;
  readonly bind: string;
  readonly port: number;
  readonly metricsBind: string;
  readonly metricsPort: number;
  readonly nodeCredentials?: string;
  readonly readyFile?: string;
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
    .addOption(maxConnectionsOption())
    .addOption(maxPerAddressOption())
    .addOption(option('--node-credentials <folder>', 'folder with one file a node credential'))
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .addOption(readyFileOption())
    .action(run);
}

async function run(options: Options): Promise<void> {
  const operatorToken = requiredSecret('HEADGATE_OPERATOR_TOKEN');
  const { startControlPlane } = await import('../../control-plane/main.ts');
  const { createLogger } = await import('../../shared/process/logger.ts');
  const { writeJsonAtomically } = await import('../../shared/process/ready-file.ts');
  const { closeOnSignal } = await import('../../shared/process/shutdown.ts');
  const { renewOnHangup } = await import('../../shared/process/tls.ts');
  const certificate = certificateOf(options);
  const logger = createLogger('control-plane');
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
    gatewayToken: process.env['HEADGATE_GATEWAY_TOKEN'] ?? operatorToken,
    signingKeyFile: process.env['HEADGATE_SIGNING_KEY'],
    nodeCredentialsDir: options.nodeCredentials,
    certificate,
    logger,
  });
  closeOnSignal(logger, () => controlPlane.close());
  renewOnHangup(certificate, logger);
  const { admin, metrics } = controlPlane;
  if (options.readyFile)
    writeJsonAtomically(options.readyFile, { admin, metrics, pid: process.pid, name: options.name });
}
