/** Goal: a gateway holds no code that it does not run. */
import { expect, test } from 'vitest';
import { registerProcesses } from '../../cli/program.ts';
import { buildProgram } from '../../cli/run.ts';
import { processIo } from '../../cli/terminal/io.ts';

test('a command line that starts a process has no admin commands, any other has all', async () => {
  const commands = async (line: string) => {
    const program = await buildProgram(processIo(), registerProcesses, line.split(' '));
    return program.commands.some((command) => command.name() === 'org');
  };
  for (const line of ['gateway', 'gateway --port 1 --name=list --insecure-snapshots', 'dev --no-demo -q'])
    expect([line, await commands(line)]).toEqual([line, false]);
  for (const line of ['org list', 'gateway list', 'gateway --help', 'gateway --port 1 forget x', 'help', ''])
    expect([line, await commands(line)]).toEqual([line, true]);
});
