#!/usr/bin/env node
import { endOnUncaught, faultsToStderr } from '../shared/runtime/fault.ts';
/** The `headgate` binary: processes and the admin CLI. Scripts rely on its exit code; a failed process always exits. */
import { processCommands } from './program.ts';
import { main } from './run.ts';

// Files may contain keys, tokens or tenant data, so only their owner may read them.
process.umask(0o077);
// Without a listener, this signal would open Node's debugger, through which any process on the machine could run code here.
process.on('SIGUSR1', () => undefined);
// Handler until a process has its own logger.
endOnUncaught(faultsToStderr);

const exitCode = await main(process.argv.slice(2), processCommands);
process.exitCode = exitCode;
// A started process keeps running. A failed one must exit even if something is open: a supervisor waits for its end.
if (exitCode !== 0)
  for (const stream of [process.stdout, process.stderr])
    await new Promise((flushed) => stream.write('', flushed));
if (exitCode !== 0) process.exit();
