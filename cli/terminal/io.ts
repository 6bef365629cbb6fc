/** Streams and settings of a command, passed as a value so that tests can replace them. Only `processIo` uses real ones. */
import { homedir } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { environment } from '../../shared/runtime/settings.ts';
import { Exit } from './errors.ts';

export interface Io {
  /** Receives only the data that the command produces. */
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /** Receives progress, hints, warnings and errors. */
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  /** Returns a signal that aborts on the first Ctrl-C. Call `release` to stop listening. */
  interrupted(): { readonly signal: AbortSignal; release(): void };
}

/** Returns the streams and settings of this process. */
export function processIo(): Io {
  const { stdout, stderr, stdin } = process;
  // If a pipe's reader closes it early, as in `headgate events list | head`, the exit code must not change.
  for (const stream of [stdout, stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      closedStreams.add(stream);
    });
  return {
    stdout,
    stderr,
    stdin,
    env: environment,
    // Read the working folder only when needed, because reading it throws if the folder was removed.
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

/** Returns the home folder, or `/` if there is none, because many containers lack both HOME and a passwd entry. */
function homeOrRoot(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}

const closedStreams = new WeakSet<Writable>();

/** Writes text and waits for a slow reader to keep the buffer bounded. Drops the text if the reader has closed the stream. */
export async function writeAll(stream: Writable, text: string | Uint8Array): Promise<void> {
  if (closedStreams.has(stream)) return;
  await new Promise<void>((resolve, reject) =>
    stream.write(text, (error) =>
      error && !closedStreams.has(stream) && errorCode(error) !== 'EPIPE' ? reject(error) : resolve(),
    ),
  );
}

/** Writes one piece of an open-ended output, such as a tail. Ends the command if the reader has closed the stream. */
export async function writePiece(stream: Writable, text: string | Uint8Array): Promise<void> {
  await writeAll(stream, text);
  if (closedStreams.has(stream)) throw new Exit(0);
}
