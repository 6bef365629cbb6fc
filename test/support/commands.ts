/**
 * Command lines that run to their end, in processes that take one after another: most of what a command costs is the start of
 * a process. `cli/headgate.ts` adds to such a run that its process ends, which tests of whole processes show.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { CommandLine } from './command-host.ts';
import { binary } from './processes.ts';

const program = join(dirname(binary), '../test/support/command-host.js');
/** What ends the output of a command line. */
const end = '\0';
const codeIn = (text: string): string | undefined => /\0(\d+)\n$/.exec(text.slice(-8))?.[1];
/** Node reads these once. */
const readAtStart = ['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS'];

/** How a command line ended. */
export interface CommandRun {
  /** -1 where it did not end by itself. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Unreferenced {
  unref(): void;
}

class CommandHost {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #closed: Promise<unknown>;
  #written = { stdout: '', stderr: '' };
  #onWritten: () => void = () => undefined;

  constructor(env: CommandLine['env']) {
    this.#child = spawn(process.execPath, [program], { env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.#closed = once(this.#child, 'close');
    // It ends with the process that started it.
    for (const each of [this.#child, ...this.#child.stdio]) (each as Unreferenced).unref();
    for (const stream of ['stdout', 'stderr'] as const)
      this.#child[stream].setEncoding('utf8').on('data', (text: string) => {
        this.#written[stream] += text;
        this.#onWritten();
      });
  }

  async run(line: CommandLine, timeoutMs: number): Promise<CommandRun> {
    this.#written = { stdout: '', stderr: '' };
    const ended = new Promise<void>((resolve) => {
      this.#onWritten = () => {
        if (Object.values(this.#written).every((text) => codeIn(text) !== undefined)) resolve();
      };
    });
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), timeoutMs);
    this.#child.stdin.write(`${JSON.stringify(line)}\n`);
    await Promise.race([ended, this.#closed]);
    clearTimeout(timer);
    const { stdout, stderr } = this.#written;
    const textOf = (written: string): string => written.split(end)[0] ?? '';
    return { code: Number(codeIn(stderr) ?? -1), stdout: textOf(stdout), stderr: textOf(stderr) };
  }

  async close(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#closed;
  }
}

const idle: CommandHost[] = [];

interface RunOptions {
  readonly env?: CommandLine['env'];
  readonly cwd?: string;
  readonly timeoutMs?: number | undefined;
}

/** Runs `headgate …` to its end. A variable that is undefined is unset. */
export async function runCommand(
  args: readonly string[],
  { env = {}, cwd = process.cwd(), timeoutMs = 180_000 }: RunOptions,
): Promise<CommandRun> {
  const line = { args, cwd, env: { ...process.env, ...env } };
  const isAlone = readAtStart.some((name) => name in env);
  const host = (isAlone ? undefined : idle.pop()) ?? new CommandHost(line.env);
  const run = await host.run(line, timeoutMs);
  if (isAlone || run.code === -1) await host.close();
  else idle.push(host);
  return run;
}

/** Once nothing runs any more. */
export async function endCommands(): Promise<void> {
  await Promise.all(idle.splice(0).map((host) => host.close()));
}
