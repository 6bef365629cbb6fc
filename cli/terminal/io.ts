/** Environment of a command, passed as a value so that tests can pass theirs. Only `processIo` accesses the process. */
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
  /** Returns a signal that aborts on the first Ctrl-C. The listener exists until `release` is called. */
  interrupted(): { readonly signal: AbortSignal; release(): void };
}

/** Returns the process's own streams and settings. */
export function processIo(): Io {
  const { stdout, stderr, stdin } = process;
  // The reader of a pipe may close it early (`headgate events list | head`). The exit code must not change because of that.
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
    // Read on use only, because reading it throws if the folder has been removed.
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

/** Returns `/` if the user has no home folder: no passwd entry and no HOME, as in many containers. */
function homeOrRoot(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}

/** Streams whose readers have closed them. */
const closedStreams = new WeakSet<Writable>();

/** Writes text and waits for a slow reader, so that the buffer stays bounded. Drops the text if the reader has gone. */
export async function writeAll(stream: Writable, text: string | Uint8Array): Promise<void> {
  if (closedStreams.has(stream)) return;
  await new Promise<void>((resolve, reject) =>
    stream.write(text, (error) =>
      error && !closedStreams.has(stream) && errorCode(error) !== 'EPIPE' ? reject(error) : resolve(),
    ),
  );
}

/** Writes a piece of output that is endless or as long as the log. Ends the command once its reader has gone. */
export async function writePiece(stream: Writable, text: string | Uint8Array): Promise<void> {
  await writeAll(stream, text);
  if (closedStreams.has(stream)) throw new Exit(0);
}
