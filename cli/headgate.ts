#!/usr/bin/env node
import { endOnUncaught, faultsToStderr } from '../shared/runtime/fault.ts';
/** The one binary: long-running processes and the admin CLI. */
import { processCommands } from './program.ts';
import { main } from './run.ts';

// Every file written may contain keys, tokens or tenant data: only its owner may read it.
process.umask(0o077);
// Without a listener this signal opens the debugger, to which every process of the machine could then give code to run.
process.on('SIGUSR1', () => undefined);
// Until a process has its own logger.
endOnUncaught(faultsToStderr);

const exitCode = await main(process.argv.slice(2), processCommands);
process.exitCode = exitCode;
// A process that was started keeps running. One that failed ends, whatever it still has open: a supervisor waits for its end.
if (exitCode !== 0)
  for (const stream of [process.stdout, process.stderr])
    await new Promise((flushed) => stream.write('', flushed));
if (exitCode !== 0) process.exit();
