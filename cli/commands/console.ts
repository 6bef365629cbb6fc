/** `headgate console` opens the web console in a browser. */
import type { Command } from 'commander';
import type { Io } from '../terminal/io.ts';
import { noun } from '../terminal/verbs.ts';
import { showLink } from './answers.ts';

export function registerConsole(program: Command, io: Io): void {
  const console = noun(program, io, 'console', 'the web console', 'deployed', 'headgate console open');
  console
    .verb(
      'open',
      'print a one-time link, valid for a minute, that signs the operator in to the console',
      'headgate console open',
      'headgate console open -o json',
    )
    .action(async (session) => {
      const link = await (await session.api()).run('console.link');
      await showLink(session, link, (until) => `valid once, until ${until}`);
    });
}
