#!/usr/bin/env node
import { endOnUncaught, faultsToStderr } from '../shared/runtime/fault.ts';
/** Entry point of the `headgate` binary. A failed process always exits, and scripts can rely on its exit code. */
import { processCommands } from './program.ts';
import { main } from './run.ts';

// Files may contain keys, tokens or tenants' data, so only their owner may read them.
process.umask(0o077);
// Handle this signal, which would otherwise open Node's debugger and let any process on the machine run code here.
process.on('SIGUSR1', () => undefined);
// Report fatal errors to stderr until the process has a logger of its own.
endOnUncaught(faultsToStderr);

const exitCode = await main(process.argv.slice(2), processCommands);
process.exitCode = exitCode;
// A started process keeps running. A failed one must exit even if handles are open, or its supervisor would wait forever.
if (exitCode !== 0)
  for (const stream of [process.stdout, process.stderr])
    await new Promise((flushed) => stream.write('', flushed));
if (exitCode !== 0) process.exit();
