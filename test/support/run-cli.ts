/** Runs one command line in this process, with streams, environment and folder provided by the test. */
import { PassThrough, Writable } from 'node:stream';
import type { CommandModule } from '../../cli/command-modules.ts';
import { main } from '../../cli/run.ts';
import type { Io } from '../../cli/terminal/io.ts';

export interface CliOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly home?: string;
  /** Text that the user types. If it is set, all streams act as terminals. */
  readonly typed?: string;
  /** Content of stdin when it is not a terminal. */
  readonly stdin?: string;
  readonly stdoutIsTerminal?: boolean;
  readonly columns?: number;
  readonly processes?: readonly CommandModule[];
  readonly signal?: AbortSignal;
  /** Called with each piece of text written to stdout. The next write waits for the returned promise. */
  readonly onStdout?: (text: string) => Promise<void> | void;
}

export interface CliRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A folder that does not exist, so that no context file is found by accident. */
const nowhere = '/nonexistent/headgate-test';

export async function runCli(argv: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const { io, written } = testIo(options);
  const code = await main(argv, options.processes, io);
  return { code, ...written() };
}

/** Returns streams and settings for a test, and a function that returns the text written so far. */
export function testIo(options: CliOptions): { io: Io; written(): { out: string; err: string } } {
  const { env = {}, cwd = nowhere, home = nowhere, typed, stdin = '', signal } = options;
  const out: string[] = [];
  const err: string[] = [];
  const stdout = collector((text) => {
    out.push(text);
    return options.onStdout?.(text);
  });
  const stderr = collector((text) => void err.push(text));
  const input = new PassThrough();
  input.end(typed ?? stdin);
  const terminal = { isTTY: typed !== undefined };
  const io: Io = {
    stdout: Object.assign(stdout, {
      isTTY: options.stdoutIsTerminal ?? typed !== undefined,
      ...(options.columns !== undefined && { columns: options.columns }),
    }),
    stderr: Object.assign(stderr, terminal),
    stdin: Object.assign(input, terminal),
    env,
    cwd,
    home,
    interrupted: () => ({ signal: signal ?? new AbortController().signal, release: () => undefined }),
  };
  return { io, written: () => ({ out: out.join(''), err: err.join('') }) };
}

function collector(keep: (text: string) => Promise<void> | void): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      Promise.resolve(keep(chunk.toString())).then(() => done(), done);
    },
  });
}
