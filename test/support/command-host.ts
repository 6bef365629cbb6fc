/**
 * A program that runs command lines one after another, as `cli/headgate.ts` runs one: each is a line of JSON on stdin, and its
 * exit code ends what it wrote to either stream. What `commands.ts` starts.
 */
import { createInterface } from 'node:readline';
import { processCommands } from '../../cli/program.ts';
import { main } from '../../cli/run.ts';

export interface CommandLine {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const binary = new URL('../../cli/headgate.js', import.meta.url).pathname;
process.umask(0o077);
// Each command line listens for errors of the streams, and those that a process began to start with for signals.
for (const emitter of [process, process.stdout, process.stderr]) emitter.setMaxListeners(0);
for await (const line of createInterface({ input: process.stdin })) {
  const { args, cwd, env } = JSON.parse(line) as CommandLine;
  for (const name of Object.keys(process.env)) if (env[name] === undefined) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  // What it forks is the command itself.
  process.argv = [process.execPath, binary, ...args];
  const code = await main(args, processCommands);
  for (const stream of [process.stdout, process.stderr]) stream.write(`\0${code}\n`);
}
// A process that has started would keep this one.
process.exit();
