/** Options that several processes share, each with its HEADGATE_* variable. */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { InvalidArgumentError, Option } from 'commander';
import { Certificate } from '../../shared/process/tls.ts';

/** A flag with a value; its variable is HEADGATE_ and the flag's name in capitals. */
export function option(flags: string, description: string): Option {
  const name = /--([a-z-]+)/.exec(flags)?.[1] ?? '';
  return new Option(flags, description).env(`HEADGATE_${name.replaceAll('-', '_').toUpperCase()}`);
}

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
export const tlsCertOption = (): Option =>
  option('--tls-cert <file>', 'certificate chain of every listener, PEM; read again on SIGHUP');
export const tlsKeyOption = (): Option => option('--tls-key <file>', 'its private key, PEM');
export const logOption = (): Option =>
  option('--log <url>', 'control log: sqlite:FOLDER or kafka://host:port,…').makeOptionMandatory();
export const readyFileOption = (): Option =>
  option('--ready-file <path>', 'write one JSON document there once it serves');

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

/** A secret from the environment; the error names the variable, never a value. */
export function requiredSecret(variable: string): string {
  const value = process.env[variable];
  if (value === undefined || value.length < 16)
    throw new Error(`set ${variable} to a random text of at least 16 characters`);
  return value;
}

/** One that need not be set; an empty variable is an unset one. Throws where it is too short. */
export function optionalSecret(variable: string): string | undefined {
  return process.env[variable] ? requiredSecret(variable) : undefined;
}

/** What gateways have; a gateway that is taken over must not make an operator. Throws where the two are one. */
export function gatewayTokenBeside(operatorToken: string | undefined, gatewayToken: string): string {
  if (gatewayToken !== operatorToken) return gatewayToken;
  throw new Error('HEADGATE_GATEWAY_TOKEN is the operator token; set it to another random text');
}

/** A token that lasts as long as the data folder, for its owner's eyes only. */
export function persistentToken(path: string, prefix: string): string {
  if (existsSync(path)) return readFileSync(path, 'utf8').trim();
  const token = `${prefix}_${randomBytes(24).toString('base64url')}`;
  writeFileSync(path, `${token}\n`, { mode: 0o600 });
  return token;
}
