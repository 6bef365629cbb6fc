/**
 * Where the control plane is and with which token it is spoken to: flag, then environment, then the context that
 * `headgate dev` writes. A context's token is sent to that context's control plane only.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { GatheredBytes } from '../shared/gathered-bytes.ts';
import { CliError, usageError } from './errors.ts';
import type { Io } from './io.ts';

export interface Context {
  readonly admin?: string;
  readonly token?: string;
  /** Address of the control log. */
  readonly log?: string;
  readonly dataDir?: string;
  readonly gateways: readonly { readonly name: string; readonly dataDir: string }[];
}

export interface Settings {
  /** Base address, without a slash at its end. */
  readonly admin: string;
  readonly token: string;
}

const defaultAdmin = 'http://127.0.0.1:8081';
const fileBytesMax = 1024 * 1024;

export interface SettingsFlags {
  readonly admin?: string;
  readonly tokenFile?: string;
}

/** Throws a CliError: 2 for an address or file that cannot be used, 4 where no token is known. */
export async function resolveSettings(io: Io, flags: SettingsFlags): Promise<Settings> {
  const context = readContext(io);
  const admin = baseUrl(flags.admin ?? nonEmpty(io.env['HEADGATE_ADMIN']) ?? context.admin ?? defaultAdmin);
  const fromContext = context.admin !== undefined && baseUrl(context.admin) === admin;
  const token =
    (await tokenOfFile(io, flags.tokenFile)) ??
    nonEmpty(io.env['HEADGATE_TOKEN']?.trim()) ??
    nonEmpty(io.env['HEADGATE_OPERATOR_TOKEN']?.trim()) ??
    (fromContext ? context.token : undefined);
  if (token === undefined) {
    throw new CliError(`no token is known for ${admin}`, {
      type: 'Unauthorized',
      exitCode: 4,
      why: 'neither --token-file nor HEADGATE_TOKEN is set, and no context has one for this address',
      next: 'set HEADGATE_TOKEN, or run beside a service started with `npm start`',
    });
  }
  // Also keeps what a header cannot carry out of the text of somebody else's error.
  if (!/^[\x21-\x7e]{1,4096}$/.test(token))
    throw usageError(
      'the token holds characters that no token has',
      'check the token file or HEADGATE_TOKEN',
    );
  return { admin, token };
}

/** The context beside which the command runs; empty where there is none. Throws a CliError on a file it cannot read. */
export function readContext(io: Io): Context {
  const path = contextPath(io);
  if (path === undefined) return { gateways: [] };
  try {
    if (statSync(path).size > fileBytesMax) throw new Error('it is too large');
    return asContext(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    throw new CliError(`the context file ${path} cannot be used`, {
      type: 'InvalidContext',
      exitCode: 2,
      why: 'it is not the JSON document that `headgate dev` writes, or it cannot be read',
      next: 'delete it, or name another with HEADGATE_CONTEXT',
      cause: error,
    });
  }
}

function contextPath(io: Io): string | undefined {
  const named = nonEmpty(io.env['HEADGATE_CONTEXT']);
  if (named !== undefined) {
    const path = resolve(io.cwd, named.replace(/^~(?=\/)/, io.home));
    return existsSync(path) ? path : undefined;
  }
  const folders = [resolve(io.cwd)];
  for (let up = dirname(folders[0] as string); up !== folders.at(-1); up = dirname(up)) folders.push(up);
  return [...folders, io.home]
    .map((at) => join(at, '.headgate', 'context.json'))
    .find((path) => existsSync(path));
}

function asContext(document: unknown): Context {
  if (typeof document !== 'object' || document === null) throw new Error('it is not an object');
  const members = document as Record<string, unknown>;
  const text = (member: string): Record<string, string> => {
    const value = members[member];
    return typeof value === 'string' && value !== '' ? { [member]: value } : {};
  };
  const gateways = Array.isArray(members['gateways']) ? (members['gateways'] as Context['gateways']) : [];
  return {
    ...text('admin'),
    ...text('token'),
    ...text('log'),
    ...text('dataDir'),
    gateways: gateways.filter(({ name, dataDir }) => typeof name === 'string' && typeof dataDir === 'string'),
  };
}

/** The address without its end slash or API prefix. Never repeated in the error: it may hold a password. */
function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw usageError(
      'the address of the control plane must be an http or https URL without credentials',
      `headgate --admin ${defaultAdmin} status`,
    );
  return url.origin + url.pathname.replace(/\/+$/, '').replace(/\/admin\/v1$/, '');
}

async function tokenOfFile(io: Io, file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const text = (await readInput(io, file)).trim();
  if (text === '') throw usageError('the token file is empty');
  return text;
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : text;
}

/** The text of a file, or of stdin for `-`. Throws a CliError with exit 2 where it cannot be read or is too large. */
export async function readInput(io: Io, file: string, bytesMax = 8 * 1024 * 1024): Promise<string> {
  try {
    if (file !== '-') {
      const path = resolve(io.cwd, file);
      if (statSync(path).size > bytesMax) throw new Error(`it is larger than ${bytesMax} bytes`);
      return readFileSync(path, 'utf8');
    }
    const bytes = new GatheredBytes({ bytesMax });
    for await (const chunk of io.stdin) {
      if (!bytes.add(Buffer.from(chunk as Buffer))) throw new Error(`it is larger than ${bytesMax} bytes`);
    }
    return bytes.whole().toString('utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw new CliError(`${file === '-' ? 'stdin' : file} cannot be read`, {
      type: 'InvalidFile',
      exitCode: 2,
      why: code ?? (error as Error).message,
      cause: error,
    });
  }
}
