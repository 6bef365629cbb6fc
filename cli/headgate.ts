#!/usr/bin/env node
import { endOnUncaught, faultsToStderr } from '../shared/runtime/fault.ts';
/** The `headgate` binary: processes and the admin CLI. Scripts rely on its exit code, and a failed process always exits. */
import { processCommands } from './program.ts';
import { main } from './run.ts';

// Files may contain keys, tokens or tenants' data, so only their owner may read them.
process.umask(0o077);
// Handle this signal, which would otherwise open Node's debugger and let any process on the machine run code here.
process.on('SIGUSR1', () => undefined);
// Handles fatal errors until the process has a logger of its own.
endOnUncaught(faultsToStderr);

const exitCode = await main(process.argv.slice(2), processCommands);
process.exitCode = exitCode;
// A started process keeps running. A failed one must exit even if something is open, because a supervisor waits for that.
if (exitCode !== 0)
  for (const stream of [process.stdout, process.stderr])
    await new Promise((flushed) => stream.write('', flushed));
if (exitCode !== 0) process.exit();
