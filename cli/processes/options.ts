/** Declares the options of processes, including those that several share. Each can also be set by a HEADGATE_* variable. */
import { isIPv6 } from 'node:net';
import { hostname } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { daySeconds, durationMs } from '../../schemas/durations.ts';
import { nameSchema } from '../../schemas/names.ts';
import { type ConnectionLimits, connectionsMaxDefault } from '../../shared/runtime/connections.ts';
import { loopback } from '../../shared/runtime/listener.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { memoryMax } from '../../shared/runtime/memory-limit.ts';
import { connectionsWithin, openFilesMax } from '../../shared/runtime/open-files.ts';
import { isProxyRange } from '../../shared/runtime/proxy-list.ts';
import { readSecret } from '../../shared/runtime/secrets.ts';
import { environment, readSetting } from '../../shared/runtime/settings.ts';
import { Certificate, ExtraAuthorities } from '../../shared/runtime/tls.ts';
import { CliError, usageError } from '../terminal/errors.ts';

declare const kindOfValue: unique symbol;
/** A process option and its value's type. It is created only on use, because creating it reads its environment variable. */
export type ProcessOption<Value> = (() => Option) & { readonly [kindOfValue]: Value };

/** Values of a table of options, under the names that commander gives them. */
export type OptionValues<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends ProcessOption<infer Value> ? Value : never;
};

interface OptionDefault<Value> {
  readonly default: Value;
}
interface MandatoryOption {
  readonly isMandatory: true;
}
interface Details<Value> {
  /** Parses a value. If the option is repeatable, `before` is the result of its earlier occurrences. */
  parse?(text: string, before: Value | undefined): Value;
  readonly choices?: readonly Value[];
  readonly default?: Value;
  /** Text that help shows as the default value. */
  readonly shown?: string;
  readonly isMandatory?: true;
}
/** Declares an option. Its value may be undefined only if the option is not mandatory and has no default. */
interface Declare {
  <Value = string>(
    flags: string,
    description: string,
    details: Details<Value> & (OptionDefault<Value> | MandatoryOption),
  ): ProcessOption<Value>;
  <Value = string>(
    flags: string,
    description: string,
    details?: Details<Value>,
  ): ProcessOption<Value | undefined>;
}

function declare(
  variable: (made: Option, flags: string) => Option,
  check: (text: string) => string,
): Declare {
  return <Value>(flags: string, description: string, details: Details<Value> = {}) => {
    const { parse, choices, default: value, shown, isMandatory = false } = details;
    const make = (): Option => {
      const made = variable(new Option(flags, description), flags);
      if (choices) made.choices(choices.map(String));
      else if (parse || check !== unchanged)
        made.argParser<Value>((text, before) => {
          const checked = check(text);
          return parse ? parse(checked, before as Value | undefined) : (checked as Value);
        });
      if (value !== undefined) made.default(value, Array.isArray(value) ? 'none' : shown);
      return made.makeOptionMandatory(isMandatory);
    };
    return make as ProcessOption<Value>;
  };
}

const unchanged = (text: string): string => text;

/**
 * Declares an option with a value. Its environment variable is `HEADGATE_` plus its name in capitals, and is unset if empty.
 */
export const option = declare((made, flags) => {
  const variable = variableName(flags);
  return environment[variable]?.trim() === '' ? made : made.env(variable);
}, unchanged);

/** Declares an option that locates a key or names a trusted party. Unlike with `option`, an empty value is an error. */
export const protectedOption = declare((made, flags) => made.env(variableName(flags)), notBlank);

function notBlank(text: string): string {
  if (text.trim() !== '') return text;
  throw new InvalidArgumentError('It is empty: give it a value, or unset it.');
}

/** Declares a flag without a value. Its environment variable turns it on if set to `true` or `1`; see `isOn`. */
export function flag(flags: string, description: string): ProcessOption<boolean | undefined> {
  const make = (): Option => new Option(flags, `${description} (env: ${variableName(flags)}=true)`);
  return make as ProcessOption<boolean | undefined>;
}

/** Whether a flag is set, on the command line or by its environment variable. */
export function isOn(flags: string, given: boolean | undefined): boolean {
  return given ?? /^(true|1)$/.test(environment[variableName(flags)] ?? '');
}

function variableName(flags: string): string {
  const name = /--([a-z-]+)/.exec(flags)?.[1] ?? '';
  return `HEADGATE_${name.replaceAll('-', '_').toUpperCase()}`;
}

export function parsePort(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new InvalidArgumentError('It must be 0 to 65535.');
  return port;
}

export function parseCount(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 0)
    throw new InvalidArgumentError('It must be a whole number, 0 or more.');
  return count;
}

function parseAmount(text: string): number {
  const amount = parseCount(text);
  if (amount === 0) throw new InvalidArgumentError('It must be a whole number, 1 or more.');
  return amount;
}

function parseName(text: string): string {
  if (nameSchema.safeParse(text).success) return text;
  throw new InvalidArgumentError('It must have 1 to 200 characters, and no control characters.');
}

function parseSeconds(text: string): number {
  const seconds = durationMs(text, ['alone', 's']) / 1000;
  if (seconds >= 0 && seconds <= daySeconds) return seconds;
  throw new InvalidArgumentError('It must be a number of seconds, 0 to 86400.');
}

function parseKeepAlive(text: string): number {
  const seconds = parseSeconds(text);
  if (seconds >= 1) return seconds;
  throw new InvalidArgumentError('It must be a number of seconds, 1 to 86400.');
}

/** Checks that the text is the URL of a service. */
export function parseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password)
    throw new InvalidArgumentError('It must be an http or https URL without credentials.');
  return text;
}

/** Matches DNS names and IP addresses, but not a variable that was not substituted, such as `$(NAME)`. */
const hostPattern = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)$/i;
/** Maximum length of an advertised address, so that it fits into a report. */
const advertisedMax = 300;

/** Parses a host, or a base URL that consists only of scheme, host and port. */
export function parseAdvertised(text: string): string {
  const host = isIPv6(text) ? `[${text}]` : text;
  const base = text.includes('://') ? text : `http://${host}`;
  const url = URL.canParse(base) ? new URL(base) : undefined;
  const isBase = url !== undefined && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
  if (!isBase || !hostPattern.test(base === text ? url.hostname : host) || text.length > advertisedMax)
    throw new InvalidArgumentError('It must be a host, or an http or https URL without a path.');
  return base === text ? url.origin : host;
}

/** Parses a repeatable URL option. One value may contain several URLs, separated by commas. */
export function parseUrls(value: string, before: readonly string[] = []): string[] {
  return [...before, ...value.split(',').map(parseUrl)];
}

/** Parses a repeatable option whose value may be a comma-separated list. */
function parseList(value: string, before: readonly string[] = []): string[] {
  return [...before, ...value.split(',')];
}

function parseProxies(value: string, before: readonly string[] = []): string[] {
  const ranges = parseList(value);
  if (ranges.every(isProxyRange)) return [...before, ...ranges];
  throw new InvalidArgumentError('It must be addresses or CIDR ranges, such as 10.0.0.0/8.');
}

export function portOption(flags: string, description: string, port: number): ProcessOption<number> {
  return option(flags, description, { parse: parsePort, default: port });
}

export function secondsOption(flags: string, description: string, seconds: number): ProcessOption<number> {
  return option(flags, description, { parse: parseSeconds, default: seconds });
}

export const allowUnsigned = '--allow-unsigned';
export const insecureSnapshots = '--insecure-snapshots';

const common = {
  log: option('--log <url>', 'control log: sqlite:FOLDER or kafka://host:port,…', { isMandatory: true }),
  data: option('--data <folder>', 'data folder; not shared with another process', { isMandatory: true }),
  name: option('--name <name>', 'name of this process, unique in the fleet', {
    ...{ parse: parseName, default: hostname(), shown: 'the host name' },
  }),
  bind: option('--bind <address>', 'address to listen on', { default: '127.0.0.1' }),
  metricsBind: option('--metrics-bind <address>', 'address to listen on for health and metrics', {
    default: loopback,
  }),
  metricsPort: portOption('--metrics-port <port>', 'port for health and metrics', 9464),
  maxConnections: option('--max-connections <n>', 'maximum concurrent connections of each listener', {
    ...{ parse: parseAmount, default: connectionsMaxDefault },
  }),
  maxConnectionsPerAddress: option(
    '--max-connections-per-address <n>',
    'maximum concurrent connections from one address; by default 90 % of --max-connections',
    { parse: parseAmount },
  ),
  keepAlive: option(
    '--keep-alive <seconds>',
    'how long an idle connection stays open; must exceed the idle timeout of a load balancer in front',
    { parse: parseKeepAlive, default: 75 },
  ),
  drainDelay: secondsOption(
    '--drain-delay <seconds>',
    'time between failing the readiness check and refusing new connections',
    5,
  ),
  drainTimeout: secondsOption(
    '--drain-timeout <seconds>',
    'time for requests in flight to finish at shutdown',
    300,
  ),
  nodeCredentials: protectedOption('--node-credentials <folder>', 'folder with one file per node credential'),
  trustSigner: protectedOption(
    '--trust-signer <key>',
    'fingerprint, public key or PEM file of a trusted signer; one of them must have signed the first record of the log; may be repeated',
    { parse: parseList, default: [] },
  ),
  allowUnsigned: flag(allowUnsigned, 'use an unsigned log although HEADGATE_SIGNING_KEY is set'),
  insecureSnapshots: flag(insecureSnapshots, 'allow snapshots from other machines over plain HTTP'),
  consoleHost: option(
    '--console-host <name>',
    'host name of the console that browsers may use, besides localhost and IP addresses; may be repeated',
    { parse: parseList, default: [] },
  ),
  playHost: option(
    '--play-host <name>',
    'host name of the playground that browsers may use, besides localhost and IP addresses; may be repeated',
    { parse: parseList, default: [] },
  ),
  trustedProxies: protectedOption(
    '--trusted-proxies <cidr>',
    'proxies whose X-Forwarded-For header is trusted to contain the address of a visitor; may be repeated',
    { parse: parseProxies, default: [] },
  ),
  consoleUrl: option('--console-url <url>', 'URL at which browsers reach the console, for sign-in links', {
    parse: parseUrl,
  }),
  tlsCert: protectedOption(
    '--tls-cert <file>',
    'PEM file with the certificate chain of every listener; reloaded when it changes',
  ),
  tlsKey: protectedOption('--tls-key <file>', 'PEM file with the private key of the certificate'),
  readyFile: option('--ready-file <path>', 'JSON file to write once the process is ready'),
};

/** Selects shared options for the table of a process. */
export function pickShared<Name extends keyof typeof common>(
  ...names: readonly Name[]
): Pick<typeof common, Name> {
  return Object.fromEntries(names.map((name) => [name, common[name]])) as Pick<typeof common, Name>;
}

/** Adds a table of options to a command. Help lists the options in the order of the table. */
export function addOptions(
  command: Command,
  table: Readonly<Record<string, ProcessOption<unknown>>>,
): Command {
  for (const [name, make] of Object.entries(table)) {
    const made = make();
    if (made.attributeName() !== name) throw new Error(`${made.flags} is not the option ${name}`);
    command.addOption(made);
  }
  return command;
}

type CommonOptions = OptionValues<typeof common>;
type ConnectionOptions = Pick<CommonOptions, 'maxConnections' | 'maxConnectionsPerAddress'> &
  Partial<Pick<CommonOptions, 'keepAlive'>>;
/** Options that all processes except `headgate dev` have. */
export type ProcessOptions = Pick<CommonOptions, 'tlsCert' | 'tlsKey' | 'readyFile'>;

/** Limits connections to the number of files that this process may open, so that excess connections are refused cleanly. */
export function connectionLimits(
  { maxConnections: asked, maxConnectionsPerAddress: perAddress, keepAlive }: ConnectionOptions,
  logger: Pick<Logger, 'warn'>,
): Partial<ConnectionLimits> {
  const filesMax = openFilesMax();
  const max = connectionsWithin(asked, filesMax);
  if (max < asked)
    logger.warn(
      { asked, accepted: max, openFilesMax: filesMax },
      'the limit of open files allows fewer connections than --max-connections; raise ulimit -n',
    );
  return {
    max,
    ...(perAddress !== undefined && { perAddress }),
    ...(keepAlive !== undefined && { keepAliveMs: keepAlive * 1000 }),
  };
}

/** Logs a warning if memory budgets are smaller than usual because this process has a low memory limit. */
export function reportMemoryLimit(logger: Pick<Logger, 'warn'>): void {
  const max = memoryMax();
  if (max === undefined) return;
  logger.warn(
    { memoryMax: Math.floor(max) },
    'bodies and answers get less memory than usual, because this process may use less than 4 GiB',
  );
}

/** Loads the certificate. Returns undefined if no file is given. Throws if only one file is given, or if one is unusable. */
export function loadCertificate({ tlsCert: cert, tlsKey: key }: ProcessOptions): Certificate | undefined {
  if (cert !== undefined && key !== undefined)
    return usingOption('--tls-cert and --tls-key', () => new Certificate({ cert, key }));
  if (cert !== key) throw usageError('--tls-cert and --tls-key must be given together');
  return undefined;
}

/** Returns the additional certificate authorities from the file that NODE_EXTRA_CA_CERTS names, if it is set. */
export function extraAuthorities(): ExtraAuthorities | undefined {
  const path = readSetting('NODE_EXTRA_CA_CERTS');
  return path === undefined ? undefined : new ExtraAuthorities(path);
}

/** Runs code that uses the value of an option. If the code fails, the error names the option. */
export function usingOption<Result>(flag: string, use: () => Result): Result {
  try {
    return use();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new CliError(message.includes(flag) ? message : `${flag}: ${message}`, {
      type: 'InvalidOption',
      cause: error,
      next: `give ${flag} a valid value`,
    });
  }
}

/** Returns the gateway token. Throws if it is the operator token, which would let a compromised gateway do anything. */
export function requireDistinctToken(operatorToken: string | undefined, gatewayToken: string): string {
  if (gatewayToken !== operatorToken) return gatewayToken;
  throw new Error('HEADGATE_GATEWAY_TOKEN is the operator token; set it to another random text');
}

/** Returns the gateway token that is being replaced, if any. Throws if it is invalid or equals the operator token. */
export function readPreviousToken(operatorToken: string): string | undefined {
  const variable = 'HEADGATE_GATEWAY_TOKEN_PREVIOUS';
  const previous = readSecret(variable);
  if (previous !== operatorToken) return previous;
  throw new Error(`${variable} is the operator token, which gateways must not have; unset it`);
}
