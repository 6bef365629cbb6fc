/** `headgate control-plane`: one of any number of equal replicas. */
import type { Command } from 'commander';
import { nodeCredentials } from '../../shared/runtime/node-credentials.ts';
import { requiredSecret } from '../../shared/runtime/secrets.ts';
import { settingOf } from '../../shared/runtime/settings.ts';
import {
  addOptions,
  allowUnsigned,
  connectionLimitsOf,
  distinctGatewayToken,
  isOn,
  option,
  parsePort,
  portOption,
  previousGatewayToken,
  type ReplicaOptions,
} from './options.ts';
import { runProcess } from './run-process.ts';

interface Options extends ReplicaOptions {
  readonly allowUnsigned?: boolean;
  readonly consolePort?: number;
  readonly consoleHost: readonly string[];
  readonly consoleUrl?: string;
  readonly apiUrl?: string;
  readonly stackDomain?: string;
}

export function controlPlaneCommand(program: Command): void {
  const command = program.command('control-plane').description('run a control-plane replica');
  addOptions(command, [
    'log',
    'data',
    'name',
    'bind',
    portOption('--port <port>', 'port of the admin API', 8081),
    option('--console-port <port>', 'port of the console for people; none is opened without it').argParser(
      parsePort,
    ),
    'consoleHost',
    'consoleUrl',
    option('--api-url <url>', 'address of the shared host as clients reach it, for the console'),
    option('--stack-domain <domain>', 'domain of the stacks’ hosts, for the console'),
    'metricsBind',
    'metricsPort',
    'drainDelay',
    'drainTimeout',
    'maxConnections',
    'maxConnectionsPerAddress',
    'nodeCredentials',
    'trustSigner',
    'allowUnsigned',
    'tlsCert',
    'tlsKey',
    'readyFile',
  ]).action(run);
}

async function run(options: Options): Promise<void> {
  const operatorToken = requiredSecret('HEADGATE_OPERATOR_TOKEN');
  const gatewayToken = distinctGatewayToken(operatorToken, requiredSecret('HEADGATE_GATEWAY_TOKEN'));
  const { startControlPlane } = await import('../../control-plane/main.ts');
  await runProcess('control-plane', options, async ({ logger, certificate }) => {
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
      nodeCredentials: nodeCredentials(options.nodeCredentials),
      drainDelaySeconds: options.drainDelay,
      drainTimeoutSeconds: options.drainTimeout,
      console: consoleOf(options),
      certificate,
      logger,
    });
    const { admin, metrics, console } = controlPlane;
    return {
      ready: { admin, metrics, ...(console !== undefined && { console }) },
      name: options.name,
      drainSeconds: options.drainDelay + options.drainTimeout,
      close: () => controlPlane.close(),
    };
  });
}

function consoleOf(options: Options) {
  const { bind, consolePort, consoleHost, consoleUrl, apiUrl: shared, stackDomain } = options;
  if (consolePort === undefined) return undefined;
  const addresses = () => ({ shared, stackDomain });
  return { bind, port: consolePort, hosts: consoleHost, url: consoleUrl, addresses };
}
