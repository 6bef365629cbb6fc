/** Errors of the CLI, and the only table of exit codes. Error messages must never contain a key, a token or a password. */

import { printable } from '../../schemas/printable.ts';
import { withoutSettings } from '../../shared/runtime/settings.ts';
import { AdminError } from '../admin-client/admin-error.ts';

export const exitCodes = {
  0: 'success, or nothing to change',
  1: 'failure, or a negative result: diff or --effect found differences, explain found a refusal, doctor found a fault',
  2: 'usage error, invalid command or invalid file',
  3: 'not found',
  4: 'not allowed: the token is missing or wrong, or the member lacks the required role',
  5: 'incomplete: some gateways did not respond or confirm the change before the deadline',
  6: 'conflict: the resource already exists, the log has moved on (--if-at), or a guard requires --force',
  7: 'control plane or log unreachable',
  130: 'interrupted',
} as const;
export type ExitCode = keyof typeof exitCodes;

/** Exit codes of errors that commands detect themselves, by type. Types are stable, so that scripts can rely on them. */
const exitCodeByType = {
  Conflict: 6,
  ConnectionLost: 7,
  DamagedBackup: 1,
  DamagedLog: 1,
  Failure: 1,
  Incomplete: 5,
  Interrupted: 130,
  InvalidContext: 2,
  InvalidFile: 2,
  InvalidOption: 2,
  NotConfirmed: 5,
  NotFound: 3,
  Unauthorized: 4,
  Unreachable: 7,
  Untrusted: 6,
  Usage: 2,
  ValueLost: 1,
} as const satisfies Readonly<Record<string, ExitCode>>;

type Kind =
  | { readonly type: keyof typeof exitCodeByType; readonly exitCode?: ExitCode }
  | { readonly type: string; readonly exitCode: ExitCode };
type CliErrorOptions = Kind & {
  readonly why?: string | readonly string[];
  /** The user's next step, preferably a command. */
  readonly next?: string;
  readonly cause?: unknown;
};

/** A failure with a message for the user. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly type: string;
  readonly exitCode: ExitCode;
  readonly why: readonly string[];
  readonly next: string | undefined;

  constructor(message: string, options: CliErrorOptions) {
    super(message, { cause: options.cause });
    this.type = options.type;
    this.exitCode = options.exitCode === undefined ? exitCodeByType[options.type] : options.exitCode;
    this.why = [options.why ?? []].flat();
    this.next = options.next;
  }
}

/** Ends the command with an exit code but without a message, because the command has already printed everything. */
export class Exit extends Error {
  override readonly name = 'Exit';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode) {
    super(`exit ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/** Creates an error about wrong usage, for commands that have not sent anything yet. */
export function usageError(message: string, next = 'headgate help'): CliError {
  return new CliError(message, { type: 'Usage', next });
}

/** Creates the error that ends a command after Ctrl-C. */
export function interrupted(): CliError {
  return new CliError('interrupted', { type: 'Interrupted' });
}

/** Exit codes of errors from the libraries that commands use, by the error's name. */
const exitCodeByName: Readonly<Record<string, ExitCode>> = {
  LogUnavailable: 7,
  LogReplaced: 7,
  LogTruncated: 7,
  LogUrlInvalid: 2,
  SecretUnusable: 2,
  SettingInvalid: 2,
  SigningKeyUnusable: 2,
};

/** Converts anything thrown to a `CliError`. An unexpected error keeps its message and leads to exit code 1. */
export function toCliError(thrown: unknown): CliError {
  if (hasLostFolder(thrown))
    return new CliError('the working folder no longer exists', {
      type: 'Usage',
      next: 'change to another folder and run the command again',
      cause: thrown,
    });
  if (thrown instanceof CliError) return thrown;
  if (thrown instanceof AdminError) return fromAdminError(thrown);
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const exitCode = thrown instanceof Error ? exitCodeByName[thrown.name] : undefined;
  if (thrown instanceof Error && exitCode !== undefined)
    return new CliError(message, { type: thrown.name, exitCode, cause: thrown });
  return new CliError(message, { type: 'Failure', cause: thrown });
}

function hasLostFolder(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  return ('syscall' in thrown && thrown.syscall === 'uv_cwd') || hasLostFolder(thrown.cause);
}

const exitCodeByStatus: Readonly<Record<number, ExitCode>> = {
  400: 2,
  401: 4,
  403: 4,
  404: 3,
  409: 6,
  413: 2,
};

function fromAdminError(error: AdminError): CliError {
  const { type, status, why } = error;
  const next = error.next ?? defaultNext(type);
  return new CliError(error.message, {
    type,
    exitCode: type === 'Interrupted' ? 130 : error.isUnreachable ? 7 : (exitCodeByStatus[status ?? 0] ?? 1),
    why,
    ...(next !== undefined && { next }),
    cause: error,
  });
}

function defaultNext(type: string): string | undefined {
  switch (type) {
    case 'Unauthorized':
      return 'set HEADGATE_TOKEN to the operator token of this control plane';
    case 'GuardRefused':
      return 'retry with --force to override the guard';
    case 'PositionMoved':
      return 'compare again (headgate diff), then retry with the new position';
    default:
      return undefined;
  }
}

/** Formats an error as four lines, or more if `why` has several. */
export function errorText(error: CliError): string {
  const lines = [
    `error[${error.type}]: ${error.message}`,
    ...error.why.map((why) => `  why   ${why}`),
    ...(error.next ? [`  next  ${error.next}`] : []),
    `  more  headgate help exit-codes (this is ${error.exitCode})`,
  ];
  return `${lines.map((line) => redactSecrets(printable(withoutSettings(line)))).join('\n')}\n`;
}

/** Replaces keys and tokens that a user pasted into the wrong place. */
function redactSecrets(text: string): string {
  return text.replace(/\b([a-z]{2,8})_[A-Za-z0-9_-]{30,}/g, '$1_…').replace(/(\/\/)[^/@\s]+@/g, '$1…@');
}
