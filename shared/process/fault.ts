/**
 * How a process ends that cannot go on: with one line of its log that says what failed and where, and an exit code that
 * is not 0. The message of an error is part of that line only where it holds no text from outside: V8 and the argument
 * checks of Node.js quote what they were given, which may be a key or a prompt.
 */
import { writeSync } from 'node:fs';
import type { LineLogger } from './logger.ts';

export interface FaultFields {
  readonly type: string;
  readonly code?: string;
  readonly message?: string;
  /** Frames of the stack, innermost first. */
  readonly at: readonly string[];
}

const framesMax = 20;
const messageLengthMax = 500;
const exitCode = 1;
/** V8 makes it without text from outside. */
const outOfMemory = /^WebAssembly\.\w+\(\): Out of memory: [\w ]+$/;

/** What may be logged of any thrown value. */
export function faultFields(thrown: unknown): FaultFields {
  if (!(thrown instanceof Error)) return { type: typeof thrown, at: [] };
  const code = 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
  return {
    type: thrown.name,
    ...(code !== undefined && { code }),
    ...(mayQuote(thrown, code) && { message: thrown.message.slice(0, messageLengthMax) }),
    at: framesOf(thrown),
  };
}

/** Errors of the system, of SQLite and of this project's own classes are made without text from outside. */
function mayQuote(error: Error, code: string | undefined): boolean {
  if (outOfMemory.test(error.message)) return true;
  if (code !== undefined) return 'syscall' in error || /^(?:SQLITE|ERR_WORKER|ERR_MODULE)_/.test(code);
  return !(error.name in globalThis);
}

function framesOf({ stack = '' }: Error): string[] {
  const frames = stack.split('\n').filter((line) => /^ {4}at /.test(line));
  return frames.slice(0, framesMax).map((line) => line.trim().replace(/^at /, ''));
}

/** Logs why and ends the process at once. */
export function endOnFault(logger: Pick<LineLogger, 'fatal'>, thrown: unknown, text: string): never {
  logger.fatal({ fault: faultFields(thrown), exitCode }, text);
  process.exit(exitCode);
}

let onUncaught: NodeJS.UncaughtExceptionListener | undefined;

/**
 * An exception or a rejection that nobody handles ends this process, as Node.js would, but with a line in its log.
 * The last logger given counts.
 */
export function endOnUncaught(logger: Pick<LineLogger, 'fatal'>): void {
  if (onUncaught !== undefined) process.off('uncaughtException', onUncaught);
  onUncaught = (error: unknown, origin) => {
    const what = origin === 'unhandledRejection' ? 'a rejection' : 'an exception';
    endOnFault(logger, error, `${what} that nothing handled: the process ends`);
  };
  process.on('uncaughtException', onUncaught);
}

/** Where there is no logger yet, or never will be: one line on stderr. */
export const faultsToStderr: Pick<LineLogger, 'fatal'> = {
  fatal: (fields, text) => {
    writeSync(process.stderr.fd, `error[Failure]: ${text} ${JSON.stringify(fields)}\n`);
  },
};
