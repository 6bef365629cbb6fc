/** Options that several processes share, each with its HEADGATE_* variable. */
import { InvalidArgumentError, Option } from 'commander';
import { type ConnectionLimits, connectionsMaxDefault } from '../../shared/runtime/connections.ts';
import { loopback } from '../../shared/runtime/listener.ts';
import { secretOf } from '../../shared/runtime/secrets.ts';
import { Certificate } from '../../shared/runtime/tls.ts';

/** A flag with a value; its variable is HEADGATE_ and the flag's name in capitals. An empty variable is an unset one. */
export function option(flags: string, description: string): Option {
  const made = new Option(flags, description);
  const variable = variableOf(flags);
  return process.env[variable]?.trim() === '' ? made : made.env(variable);
}

/** A flag without a value. Its variable counts where it is `true` or `1`: see isOn. */
function flag(flags: string, description: string): Option {
  return new Option(flags, `${description} (env: ${variableOf(flags)}=true)`);
}

/** Whether a flag is given, on the command line or by its variable. */
export function isOn(flags: string, given: boolean | undefined): boolean {
  return given ?? /^(true|1)$/.test(process.env[variableOf(flags)] ?? '');
}

function variableOf(flags: string): string {
  const name = /--([a-z-]+)/.exec(flags)?.[1] ?? '';
  return `HEADGATE_${name.replaceAll('-', '_').toUpperCase()}`;
}

export const allowUnsigned = '--allow-unsigned';
export const allowUnsignedOption = (): Option =>
  flag(allowUnsigned, 'run on a log that is not signed, although HEADGATE_SIGNING_KEY is set');
export const insecureSnapshots = '--insecure-snapshots';
export const insecureSnapshotsOption = (): Option =>
  flag(insecureSnapshots, 'fetch snapshots over plain HTTP from other machines, too');

export function parsePort(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new InvalidArgumentError('must be 0 to 65535');
  return port;
}

export function parseCount(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 0)
    throw new InvalidArgumentError('must be a whole number, 0 or more');
  return count;
}

function parseAmount(text: string): number {
  const amount = parseCount(text);
  if (amount === 0) throw new InvalidArgumentError('must be a whole number, 1 or more');
  return amount;
}

export function parseSeconds(text: string): number {
  const seconds = Number(/^(\d+(?:\.\d+)?)s?$/.exec(text)?.[1] ?? Number.NaN);
  if (!(seconds >= 0 && seconds <= 86_400)) throw new InvalidArgumentError('must be seconds, 0 to 86400');
  return seconds;
}

/** A flag that may be repeated, and whose value may hold several, parted by commas. */
export function parseList(value: string, before: readonly string[] = []): string[] {
  return [...before, ...value.split(',')];
}

export function portOption(flags: string, description: string, port: number): Option {
  return option(flags, description).argParser(parsePort).default(port);
}

export const bindOption = (): Option =>
  option('--bind <address>', 'address to listen on').default('127.0.0.1');
export const metricsBindOption = (): Option =>
  option('--metrics-bind <address>', 'address of health and metrics').default(loopback);
export const maxConnectionsOption = (): Option =>
  option('--max-connections <n>', 'connections of one listener at once')
    .argParser(parseAmount)
    .default(connectionsMaxDefault);
export const maxPerAddressOption = (): Option =>
  option(
    '--max-connections-per-address <n>',
    'of these, from one address; nine tenths unless given',
  ).argParser(parseAmount);
export const tlsCertOption = (): Option =>
  option('--tls-cert <file>', 'certificate chain of every listener, PEM; read again on SIGHUP');
export const tlsKeyOption = (): Option => option('--tls-key <file>', 'its private key, PEM');
export const logOption = (): Option =>
  option('--log <url>', 'control log: sqlite:FOLDER or kafka://host:port,…').makeOptionMandatory();
export const trustSignerOption = (): Option =>
  option(
    '--trust-signer <key>',
    'fingerprint, public key or its PEM file; one of them must have begun the log; may be repeated',
  )
    .argParser(parseList)
    .default([]);
export const readyFileOption = (): Option =>
  option('--ready-file <path>', 'write one JSON document there once it serves');

export interface ConnectionOptions {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress?: number;
}

export function connectionLimitsOf(options: ConnectionOptions): Partial<ConnectionLimits> {
  const { maxConnections: max, maxConnectionsPerAddress: perAddress } = options;
  return perAddress === undefined ? { max } : { max, perAddress };
}

export interface TlsOptions {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** Undefined where neither file is given. Throws an Error where one is missing or cannot be used. */
export function certificateOf({ tlsCert: cert, tlsKey: key }: TlsOptions): Certificate | undefined {
  if (cert !== undefined && key !== undefined) return new Certificate({ cert, key });
  if (cert !== key) throw new Error('--tls-cert and --tls-key go together');
  return undefined;
}

/** What gateways have; a gateway that is taken over must not make an operator. Throws where the two are one. */
export function distinctGatewayToken(operatorToken: string | undefined, gatewayToken: string): string {
  if (gatewayToken !== operatorToken) return gatewayToken;
  throw new Error('HEADGATE_GATEWAY_TOKEN is the operator token; set it to another random text');
}

/** The token that gateways had before, where they change over. Throws where it is unusable, or is the operator token. */
export function previousGatewayToken(operatorToken: string): string | undefined {
  const variable = 'HEADGATE_GATEWAY_TOKEN_PREVIOUS';
  const previous = secretOf(variable);
  if (previous !== operatorToken) return previous;
  throw new Error(`${variable} is the operator token, which gateways must not have; unset it`);
}
