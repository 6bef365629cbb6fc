/** Runs one command line in this process, with streams, environment and folder of the test's own. */
import { PassThrough, Writable } from 'node:stream';
import type { Command } from 'commander';
import type { Io } from '../io.ts';
import { main } from '../run.ts';

export interface CliOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly home?: string;
  /** What the person types; its presence makes all streams a terminal. */
  readonly typed?: string;
  /** What stdin holds where it is no terminal. */
  readonly stdin?: string;
  readonly stdoutIsTerminal?: boolean;
  readonly extras?: (program: Command) => void;
  readonly signal?: AbortSignal;
  /** Called with everything written to stdout so far, at each write. */
  readonly onStdout?: (text: string) => void;
}

export interface CliRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A folder that does not exist, so that no context is found by accident. */
const nowhere = '/nonexistent/headgate-test';

export async function runCli(argv: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const { env = {}, cwd = nowhere, home = nowhere, typed, stdin = '', signal } = options;
  let out = '';
  let err = '';
  const stdout = collector((text) => {
    out += text;
    options.onStdout?.(out);
  });
  const stderr = collector((text) => {
    err += text;
  });
  const input = new PassThrough();
  input.end(typed ?? stdin);
  const terminal = { isTTY: typed !== undefined };
  const io: Io = {
    stdout: Object.assign(stdout, { isTTY: options.stdoutIsTerminal ?? typed !== undefined }),
    stderr: Object.assign(stderr, terminal),
    stdin: Object.assign(input, terminal),
    env,
    cwd,
    home,
    interrupted: () => ({ signal: signal ?? new AbortController().signal, release: () => undefined }),
  };
  const code = await main(argv, options.extras, io);
  return { code, out, err };
}

function collector(keep: (text: string) => void): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      keep(chunk.toString());
      done();
    },
  });
}
