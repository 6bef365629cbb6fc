/**
 * Finds the control plane's address and token: in options, then the environment, then the context file of `headgate dev`. A
 * context file's token is sent only to that file's control plane. If the file was found rather than named by the user, its
 * control plane never receives any other token.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { isToken, tokenLengthMin } from '../../shared/runtime/secrets.ts';
import { readSetting } from '../../shared/runtime/settings.ts';
import type { AdminSettings } from '../admin-client/admin-client.ts';
import { CliError, usageError } from './errors.ts';
import type { Io } from './io.ts';

export interface Context {
  readonly admin?: string;
  readonly token?: string;
  /** URL of the control log. */
  readonly log?: string;
  readonly dataDir?: string;
  readonly gateways: readonly { readonly name: string; readonly dataDir: string }[];
}

const defaultAdmin = 'http://127.0.0.1:8081';
const fileBytesMax = 1024 * 1024;

export interface SettingsFlags {
  readonly admin?: string;
  readonly tokenFile?: string;
}

/** Finds the address and the token. Throws a `CliError` with exit code 2 if one is unusable, or 4 if no token may be sent. */
export async function resolveSettings(io: Io, flags: SettingsFlags): Promise<AdminSettings> {
  const chosen = flags.admin ?? readSetting('HEADGATE_ADMIN', io.env);
  const given = (await readTokenFile(io, flags.tokenFile)) ?? readEnvironmentToken(io);
  if (chosen !== undefined && given !== undefined) return { admin: baseUrl(chosen), token: given };
  const { context, path, isNamed } = locateContext(io);
  const admin = baseUrl(chosen ?? context.admin ?? defaultAdmin);
  const ofContext =
    context.admin !== undefined && baseUrl(context.admin) === admin ? context.token : undefined;
  // Someone else's context file may lie in a repository or shared folder, so its address receives only its own token.
  const wasFound = chosen === undefined && context.admin !== undefined && !isNamed;
  if (wasFound && flags.tokenFile !== undefined) throw tokenNotSentError('the token file', admin, path);
  const token = wasFound ? ofContext : (given ?? ofContext);
  if (token !== undefined) return { admin, token: checkedToken(token, `the context file ${path}`) };
  if (wasFound && given !== undefined) throw tokenNotSentError('HEADGATE_TOKEN', admin, path);
  throw new CliError(`no token is configured for ${admin}`, {
    type: 'Unauthorized',
    why: 'neither --token-file nor HEADGATE_TOKEN is set, and no context file has a token for this address',
    next: 'set HEADGATE_TOKEN, or run the command in the folder where `npm start` was run',
  });
}

function tokenNotSentError(what: string, admin: string, path: string | undefined): CliError {
  return new CliError(`${what} is not sent to ${admin}`, {
    type: 'Unauthorized',
    why: `this address comes from a discovered file, ${path}, and not from --admin or HEADGATE_ADMIN`,
    next: `if you trust this control plane, retry with --admin ${admin}`,
  });
}

function readEnvironmentToken(io: Io): string | undefined {
  for (const variable of ['HEADGATE_TOKEN', 'HEADGATE_OPERATOR_TOKEN']) {
    const value = readSetting(variable, io.env);
    if (value !== undefined) return checkedToken(value, variable);
  }
  return undefined;
}

/** Validates a token, because fetch would quote an invalid token in its error message. */
function checkedToken(token: string, source: string): string {
  if (isToken(token)) return token;
  throw usageError(
    `${source} is not a valid token: a token must have at least ${tokenLengthMin} printable characters and no spaces`,
    'check the token file or HEADGATE_TOKEN',
  );
}

/** Reads the context file that applies. Returns an empty context if there is none. Throws a `CliError` if it is unusable. */
export function readContext(io: Io): Context {
  return locateContext(io).context;
}

interface LocatedContext {
  readonly context: Context;
  readonly path: string | undefined;
  /** Whether HEADGATE_CONTEXT names the file. Otherwise it was found in the working folder, a folder above it, or at home. */
  readonly isNamed: boolean;
}

function locateContext(io: Io): LocatedContext {
  const isNamed = readSetting('HEADGATE_CONTEXT', io.env) !== undefined;
  const path = contextPath(io);
  if (path === undefined) return { context: { gateways: [] }, path, isNamed };
  try {
    return { context: parseContext(JSON.parse(readTrusted(path))), path, isNamed };
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`the context file ${path} is not usable`, {
      type: 'InvalidContext',
      why: 'it cannot be read, or it is not the JSON document that `headgate dev` writes',
      next: 'delete it, or set HEADGATE_CONTEXT to another file',
      cause: error,
    });
  }
}

/** Reads the context file. Throws a `CliError` if another user could have written it. */
function readTrusted(path: string): string {
  // Do not block, because the path may refer to a named pipe.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(descriptor);
    const { uid, mode, size } = stats;
    if (!stats.isFile()) throw new Error('it is not a file');
    const user = process.getuid?.();
    const isOwn = user === undefined || uid === user;
    if (!isOwn || (user !== undefined && (mode & 0o022) !== 0))
      throw new CliError(`the context file ${path} is not trusted`, {
        type: 'InvalidContext',
        why: isOwn ? 'other users can write to it' : 'it belongs to another user',
        next: isOwn ? `chmod go-w ${path}` : 'set HEADGATE_CONTEXT to a file of your own',
      });
    if (size > fileBytesMax) throw new Error('it is too large');
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

function contextPath(io: Io): string | undefined {
  const named = readSetting('HEADGATE_CONTEXT', io.env);
  if (named !== undefined) {
    const path = resolve(io.cwd, named.replace(/^~(?=\/)/, io.home));
    return existsSync(path) ? path : undefined;
  }
  const start = resolve(io.cwd);
  const folders = [start];
  for (let up = dirname(start); up !== folders.at(-1); up = dirname(up)) folders.push(up);
  return [...folders, io.home]
    .map((at) => join(at, '.headgate', 'context.json'))
    .find((path) => existsSync(path));
}

function parseContext(document: unknown): Context {
  if (typeof document !== 'object' || document === null) throw new Error('it is not an object');
  const members = document as Record<string, unknown>;
  const text = (member: string): Record<string, string> => {
    const value = members[member];
    return typeof value === 'string' && value !== '' ? { [member]: value } : {};
  };
  const gateways: Context['gateways'] = Array.isArray(members['gateways']) ? members['gateways'] : [];
  return {
    ...text('admin'),
    ...text('token'),
    ...text('log'),
    ...text('dataDir'),
    gateways: gateways.filter(({ name, dataDir }) => typeof name === 'string' && typeof dataDir === 'string'),
  };
}

/** Removes a trailing slash and the API's prefix. Errors never quote the URL, because it may contain a password. */
function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw usageError(
      'the address of the control plane must be an http or https URL without credentials',
      `headgate --admin ${defaultAdmin} status`,
    );
  return url.origin + url.pathname.replace(/\/+$/, '').replace(/\/admin\/v1$/, '');
}

async function readTokenFile(io: Io, file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const text = (await readInput(io, file)).trim();
  if (text === '') throw usageError('the token file is empty');
  return checkedToken(text, 'the token file');
}

/** Reads a file, or stdin if `file` is `-`. Throws a `CliError` with exit code 2 if it cannot be read or is too large. */
export async function readInput(io: Io, file: string, bytesMax = 8 * 1024 * 1024): Promise<string> {
  try {
    if (file !== '-') {
      return textOfNamed(resolve(io.cwd, file), bytesMax);
    }
    const bytes = new ChunkBuffer({ bytesMax });
    for await (const chunk of io.stdin) {
      if (!bytes.add(Buffer.from(chunk as Buffer))) throw new Error(`it is larger than ${bytesMax} bytes`);
    }
    return bytes.whole().toString('utf8');
  } catch (error) {
    throw new CliError(`${file === '-' ? 'stdin' : file} cannot be read`, {
      type: 'InvalidFile',
      why: errorCode(error) ?? (error instanceof Error ? error.message : String(error)),
      cause: error,
    });
  }
}
