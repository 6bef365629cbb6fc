/**
 * Handles fatal errors by writing one log line with the stack and exiting with a non-zero code. The line contains the error's
 * message only if that cannot include external input. V8 and Node.js quote their input, which may be a key or a prompt.
 */
import { writeSync } from 'node:fs';
import type { LogText } from '../../schemas/records/log-events.ts';
import type { LineLogger } from './logger.ts';
import { withoutSettings } from './settings.ts';

export interface FaultFields {
  readonly type: string;
  readonly code?: string;
  readonly message?: string;
  /** Stack frames, innermost first. */
  readonly at: readonly string[];
}

const framesMax = 20;
const messageLengthMax = 500;
const exitCode = 1;
/** V8's out-of-memory message, which never contains external input. */
const outOfMemory = /^WebAssembly\.\w+\(\): Out of memory: [\w ]+$/;

/** Returns the fields of a thrown value that are safe to log. */
export function faultFields(thrown: unknown): FaultFields {
  if (!(thrown instanceof Error)) return { type: typeof thrown, at: [] };
  const code = 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
  return {
    type: thrown.name,
    ...(code !== undefined && { code }),
    ...(hasSafeMessage(thrown, code) && {
      message: withoutSettings(thrown.message).slice(0, messageLengthMax),
    }),
    at: parseFrames(thrown),
  };
}

/** Whether the message is free of external input. This holds for system errors, SQLite errors and this project's classes. */
function hasSafeMessage(error: Error, code: string | undefined): boolean {
  if (outOfMemory.test(error.message)) return true;
  if (code !== undefined) return 'syscall' in error || /^(?:SQLITE|ERR_WORKER|ERR_MODULE)_/.test(code);
  return !(error.name in globalThis);
}

function parseFrames({ stack = '' }: Error): string[] {
  const frames = stack.split('\n').filter((line) => /^ {4}at /.test(line));
  return frames.slice(0, framesMax).map((line) => line.trim().replace(/^at /, ''));
}

/** Logs the error and exits immediately. */
export function endOnFault(
  logger: Pick<LineLogger, 'fatal'>,
  thrown: unknown,
  text: LogText<'fatal'>,
): never {
  logger.fatal({ fault: faultFields(thrown), exitCode }, text);
  process.exit(exitCode);
}

const unhandledRejection = 'unhandled rejection: the process ends';
const uncaughtException = 'unhandled exception: the process ends';
let onUncaught: NodeJS.UncaughtExceptionListener | undefined;

/** Logs an uncaught exception or unhandled rejection, then exits. If it is called again, the new logger is used. */
export function endOnUncaught(logger: Pick<LineLogger, 'fatal'>): void {
  if (onUncaught !== undefined) process.off('uncaughtException', onUncaught);
  onUncaught = (error: unknown, origin) => {
    const isRejection = origin === 'unhandledRejection';
    endOnFault(logger, error, isRejection ? unhandledRejection : uncaughtException);
  };
  process.on('uncaughtException', onUncaught);
}

/** Fallback for processes that do not have a logger, or not yet. Writes one line to stderr. */
export const faultsToStderr: Pick<LineLogger, 'fatal'> = {
  fatal: (fields, text) => {
    try {
      writeSync(process.stderr.fd, `error[Failure]: ${text} ${JSON.stringify(fields)}\n`);
    } catch {
      // Writing failed because stderr is closed. Ignore that, because the exit code still reports the fault.
    }
  },
};
