/**
 * A helper program that runs command lines one after another, each as `cli/headgate.ts` would. Each command line is one line
 * of JSON on stdin. The exit code, written to both stdout and stderr, marks the end of a command's output.
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
// Each command line adds error listeners to the streams and signal listeners to the process, so allow any number.
for (const emitter of [process, process.stdout, process.stderr]) emitter.setMaxListeners(0);
for await (const line of createInterface({ input: process.stdin })) {
  const { args, cwd, env } = JSON.parse(line) as CommandLine;
  for (const name of Object.keys(process.env)) if (env[name] === undefined) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  // Child processes that a command forks must run the command-line program, not this file.
  process.argv = [process.execPath, binary, ...args];
  const code = await main(args, processCommands);
  for (const stream of [process.stdout, process.stderr]) stream.write(`\0${code}\n`);
}
// Processes that a command has started would otherwise keep this process alive.
process.exit();
