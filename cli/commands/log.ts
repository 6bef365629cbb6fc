/** `headgate log`: what an operator does to the control log itself. */
import type { Command } from 'commander';
import type { Io } from '../terminal/io.ts';
import { position } from '../terminal/options.ts';
import { noun } from '../terminal/verbs.ts';
import type { ArchiveOptions } from './log-archive.ts';

export function registerLog(program: Command, io: Io): void {
  const log = noun(
    program,
    io,
    'log',
    'the records of the control log',
    'past',
    'headgate log archive --before 18000 --to /archive/headgate --dry-run',
  );
  log
    .verb(
      'archive',
      'move the oldest commits of the log into an archive, and cut the log behind them',
      'headgate log archive --before 18000 --to /archive/headgate --dry-run',
      'headgate log archive --before 18000 --to /archive/headgate --yes',
    )
    .required('--before <position>', 'cut at the last checkpoint up to this position', position)
    .required('--to <folder>', 'an empty folder, or that of the former archive or a backup')
    .action<ArchiveOptions>(async (session, options) => {
      const { archiveLog } = await import('./log-archive.ts');
      await archiveLog(session, options);
    });
}
