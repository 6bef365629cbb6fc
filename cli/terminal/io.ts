/**
 * The environment of a command: three streams, environment variables, the working folder. Commands receive it as a
 * value, so that tests pass their own; only `processIo` uses the process.
 */
import { homedir } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { environment } from '../../shared/runtime/settings.ts';
import { Exit } from './errors.ts';

export interface Io {
  /** Data, and nothing else. */
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /** Progress, hints, warnings and errors. */
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  /** Aborts on the first Ctrl-C. The listener exists only until `release`. */
  interrupted(): { readonly signal: AbortSignal; release(): void };
}

/** The process's own streams and settings. */
export function processIo(): Io {
  const { stdout, stderr, stdin } = process;
  // The reader of a pipe may close it early (`headgate events list | head`): the exit code stays that of the command.
  for (const stream of [stdout, stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      gone.add(stream);
    });
  return {
    stdout,
    stderr,
    stdin,
    env: environment,
    // Read only on use, because reading it throws if the folder has been removed.
    get cwd() {
      return process.cwd();
    },
    home: homeOrRoot(),
    interrupted: () => {
      const controller = new AbortController();
      const onSignal = (): void => controller.abort();
      process.once('SIGINT', onSignal);
      return { signal: controller.signal, release: () => process.off('SIGINT', onSignal) };
    },
  };
}

/** A user without an entry and without HOME, as in many containers, has no home folder. */
function homeOrRoot(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}

/** Streams whose reader has closed them. */
const gone = new WeakSet<Writable>();

/**
 * Writes and waits for a slow reader, so that output is not buffered in memory without bound. What nobody reads any more is
 * dropped.
 */
export async function writeAll(stream: Writable, text: string | Uint8Array): Promise<void> {
  if (gone.has(stream)) return;
  await new Promise<void>((resolve, reject) =>
    stream.write(text, (error) =>
      error && !gone.has(stream) && errorCode(error) !== 'EPIPE' ? reject(error) : resolve(),
    ),
  );
}

/** A piece of output that has no end, or is as long as the log: once nobody reads it, the command is done. */
export async function writePiece(stream: Writable, text: string | Uint8Array): Promise<void> {
  await writeAll(stream, text);
  if (gone.has(stream)) throw new Exit(0);
}
