/** `headgate control-plane` runs a control plane. Any number of equal replicas may run. */
import { type Command, InvalidArgumentError } from 'commander';
import { dayMs, durationMs } from '../../schemas/durations.ts';
import { usageKeepDaysDefault } from '../../schemas/records/usage.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { nodeCredentials } from '../../shared/runtime/node-credentials.ts';
import { readProtectedSetting, requiredSecret } from '../../shared/runtime/secrets.ts';
import { usageError } from '../terminal/errors.ts';
import {
  addOptions,
  allowUnsigned,
  connectionLimits,
  isOn,
  type OptionValues,
  option,
  parsePort,
  parseUrl,
  pickShared,
  portOption,
  protectedOption,
  readPreviousToken,
  requireDistinctToken,
  usingOption,
} from './options.ts';
import { runProcess } from './run-process.ts';

function parseGigabytes(text: string): number {
  const count = Number(text);
  if (!(count > 0 && count <= 1e6)) throw new InvalidArgumentError('It must be a number above 0.');
  return count;
}

function parseForgetAfter(text: string): number {
  if (text === 'never') return Number.POSITIVE_INFINITY;
  const ms = durationMs(text, ['d', 'h']);
  if (ms >= dayMs) return ms;
  throw new InvalidArgumentError('It must be a duration of a day or more, such as 90d, or never.');
}

/** Maximum number of days for which usage rows are kept: ten years. It is bounded because each day is a file. */
const keptDaysMax = 3650;

function parseKeptDays(text: string): number {
  const days = durationMs(text, ['d']) / dayMs;
  if (Number.isSafeInteger(days) && days >= 1 && days <= keptDaysMax) return days;
  throw new InvalidArgumentError('It must be a number of days from 1d to 3650d.');
}

const controlPlaneOptions = {
  ...pickShared('log', 'data', 'name', 'bind'),
  port: portOption('--port <port>', 'port of the admin API', 8081),
  consolePort: option(
    '--console-port <port>',
    'port of the web console; without this option there is no console',
    {
      parse: parsePort,
    },
  ),
  ...pickShared('consoleHost', 'consoleUrl'),
  apiUrl: option('--api-url <url>', 'URL at which clients reach the shared host; the console shows it', {
    parse: parseUrl,
  }),
  stackDomain: option('--stack-domain <domain>', 'domain of the stack hosts; the console shows it'),
  oidcIssuer: protectedOption('--oidc-issuer <url>', 'identity provider for signing in to the console', {
    parse: parseUrl,
  }),
  oidcClientId: protectedOption('--oidc-client-id <id>', 'client id of the console at the identity provider'),
  oidcClientSecretFile: protectedOption(
    '--oidc-client-secret-file <file>',
    'file with the client secret of the console',
  ),
  oidcOperatorGroup: protectedOption(
    '--oidc-operator-group <name>',
    'group whose members are operators; the groups claim must contain its name',
  ),
  usageKeep: option('--usage-keep <days>', 'how long usage rows are kept for usage export', {
    ...{ parse: parseKeptDays, default: usageKeepDaysDefault, shown: `${usageKeepDaysDefault}d` },
  }),
  historyGigabytes: option(
    '--history-gigabytes <n>',
    'size of history.db above which the oldest history is removed',
    { parse: parseGigabytes, default: 8 },
  ),
  forgetKeysAfter: option(
    '--forget-keys-after <duration>',
    'time after which a revoked or expired key is forgotten, or never',
    { parse: parseForgetAfter, default: 90 * dayMs, shown: '90d' },
  ),
  ...pickShared(
    'metricsBind',
    'metricsPort',
    'drainDelay',
    'drainTimeout',
    'maxConnections',
    'maxConnectionsPerAddress',
    'keepAlive',
    'nodeCredentials',
    'trustSigner',
    'allowUnsigned',
    'tlsCert',
    'tlsKey',
  ),
  gatewayTlsName: protectedOption(
    '--gateway-tls-name <name>',
    'name to expect in gateway certificates, instead of the host in the gateway address',
  ),
  ...pickShared('readyFile'),
};
type Options = OptionValues<typeof controlPlaneOptions>;

export function controlPlaneCommand(program: Command): void {
  const command = program
    .command('control-plane')
    .description('run a control plane; any number of replicas can share one log');
  addOptions(command, controlPlaneOptions).action(run);
}

async function run(options: Options): Promise<void> {
  const operatorToken = requiredSecret('HEADGATE_OPERATOR_TOKEN');
  const gatewayToken = requireDistinctToken(operatorToken, requiredSecret('HEADGATE_GATEWAY_TOKEN'));
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
      connections: connectionLimits(options, logger),
      operatorToken,
      gatewayToken,
      previousGatewayToken: readPreviousToken(operatorToken),
      signingKeyFile: readProtectedSetting('HEADGATE_SIGNING_KEY'),
      allowUnsigned: isOn(allowUnsigned, options.allowUnsigned),
      trustedSigners: options.trustSigner,
      nodeCredentials: nodeCredentials(options.nodeCredentials),
      usageKeepDays: options.usageKeep,
      historyBytesMax: options.historyGigabytes * 1024 ** 3,
      forgetKeysAfterMs: options.forgetKeysAfter,
      drainDelaySeconds: options.drainDelay,
      drainTimeoutSeconds: options.drainTimeout,
      console: consoleSettings(options),
      certificate,
      gatewayTlsName: options.gatewayTlsName,
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

function consoleSettings(options: Options) {
  const { bind, consolePort, consoleHost, consoleUrl, apiUrl: shared, stackDomain } = options;
  if (consolePort === undefined) return undefined;
  const addresses = () => ({ shared, stackDomain });
  const oidc = oidcSettings(options);
  return { bind, port: consolePort, hosts: consoleHost, url: consoleUrl, addresses, oidc };
}

function oidcSettings({ oidcIssuer: issuer, oidcClientId: clientId, ...rest }: Options) {
  const { oidcClientSecretFile: file, oidcOperatorGroup: operatorGroup } = rest;
  const given = [issuer, clientId, file, operatorGroup].filter((value) => value !== undefined);
  if (given.length === 0) return undefined;
  const next = 'give --oidc-issuer, --oidc-client-id and --oidc-client-secret-file together';
  if (issuer === undefined || clientId === undefined || file === undefined)
    throw usageError('the identity provider is only partly configured', next);
  return { issuer, clientId, clientSecret: readSecret(file), operatorGroup };
}

function readSecret(file: string): string {
  const secret = usingOption('--oidc-client-secret-file', () => textOfNamed(file)).trim();
  if (secret === '')
    throw usageError(`--oidc-client-secret-file: ${file} is empty`, 'write only the client secret to it');
  return secret;
}
