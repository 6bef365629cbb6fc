/**
 * What a command line touches outside itself: three streams, the environment, the folder it stands in.
 * Commands get it as a value, so that tests run them with streams of their own; only `processIo` knows the process.
 */
import { once } from 'node:events';
import { homedir } from 'node:os';
import type { Readable, Writable } from 'node:stream';

export interface Io {
  /** Data, and nothing else. */
  readonly stdout: Writable & { readonly isTTY?: boolean };
  /** Progress, hints, warnings and errors. */
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  /** Aborts at the first interrupt (Ctrl-C). The listener is set up only while a command asks for it. */
  interrupted(): { readonly signal: AbortSignal; release(): void };
}

/** The process's own streams and settings. */
export function processIo(): Io {
  const { stdout, stderr, stdin, env } = process;
  // The reader of a pipe may leave before the end (`headgate events list | head`): nothing is left to be done then.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  return {
    stdout,
    stderr,
    stdin,
    env,
    cwd: process.cwd(),
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

/** Writes and waits while the reader is slower than we are, so that nothing piles up in memory. */
export async function writeAll(stream: Writable, text: string | Uint8Array): Promise<void> {
  if (!stream.write(text)) await once(stream, 'drain');
}
