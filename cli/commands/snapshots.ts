/** `headgate snapshot inspect` verifies the snapshot file of a process. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { Exit } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { noun } from '../terminal/verbs.ts';

export function registerSnapshots(program: Command, io: Io): void {
  noun(
    program,
    io,
    'snapshot',
    'state files of gateways and control planes',
    'past',
    'headgate snapshot inspect gw-1/state.db',
  )
    .verb(
      'inspect <file>',
      'verify a state file and show its position',
      'headgate snapshot inspect gw-1/state.db',
    )
    .action(async (session, _options, file) => {
      const { inspectState } = await import('./state-file.ts');
      const found = inspectState(resolve(session.io.cwd, file));
      await session.out.resource({ file, ...found }, { name: () => file });
      if (!found.verified) throw new Exit(1);
    });
}
