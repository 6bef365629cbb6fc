/**
 * Runs command lines to completion in a few reused processes, because most of a command's cost is starting a process. Tests
 * of whole processes cover the rest of `cli/headgate.ts`, for example that its process ends.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { CommandLine } from './command-host.ts';
import { binary } from './processes.ts';

const program = join(dirname(binary), '../test/support/command-host.js');
/** Marks the end of a command's output. The exit code follows it. */
const end = '\0';
const codeIn = (text: string): string | undefined => /\0(\d+)\n$/.exec(text.slice(-8))?.[1];
/** Environment variables that Node reads only when it starts, so a command that sets them needs a new process. */
const readAtStart = ['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS'];

export interface CommandRun {
  /** Exit code, or -1 if the command did not exit normally. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface UnrefHandle {
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
    // Unreferences the helper process, so that it does not keep its parent alive.
    for (const each of [this.#child, ...this.#child.stdio]) (each as UnrefHandle).unref();
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

/** Runs `headgate …` to completion. Variables set to undefined are unset. */
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

/** Ends the idle helper processes. Call it only when no command is running. */
export async function endCommands(): Promise<void> {
  await Promise.all(idle.splice(0).map((host) => host.close()));
}
