/** `headgate backup` copies the control log and a control plane's databases. Its subcommands verify and restore backups. */
import type { Command } from 'commander';
import type { Io } from '../terminal/io.ts';
import { groups, verb } from '../terminal/verbs.ts';
import type { BackupOptions } from './backup-create.ts';
import type { BackupRestoreOptions } from './backup-restore.ts';

export function registerBackups(program: Command, io: Io): void {
  const backup = verb(
    program,
    io,
    'backup <folder>',
    'write a backup of the log and the usage, or add what is new since the last backup',
    [
      'headgate backup /backup/headgate --data /var/lib/headgate/cp-1',
      'headgate backup verify /backup/headgate',
    ],
  );
  backup
    .option('--log <url>', 'URL of the log; HEADGATE_LOG by default')
    .option('--data <folder>', 'data folder of a control plane, which may be running')
    .option('--no-usage', 'back up the log without the usage')
    .command.helpGroup(groups.past);
  verb(backup.command, io, 'verify <folder>', 'check every file of a backup, and replay its commits', [
    'headgate backup verify /backup/headgate',
  ]).action(async (session, _options, folder) => {
    const { verifyBackup } = await import('./backup-verify.ts');
    await verifyBackup(session, folder);
  });
  verb(backup.command, io, 'restore <folder>', 'restore the log and the usage after everything was lost', [
    'headgate backup restore /backup/headgate --log sqlite:./data/log --data ./data/cp-1 --dry-run',
    'headgate backup restore /backup/headgate --log kafka://broker:9092 --data ./data/cp-1 --trust-signer first-signer.pub --yes',
  ])
    .repeated(
      '--trust-signer <key>',
      'fingerprint, public key or PEM file of a trusted signer; one of them must have signed the first commit; may be repeated',
    )
    .option('--allow-unsigned', 'with --yes: restore the log even if its first commit is unsigned')
    .action<BackupRestoreOptions>(async (session, options, folder) => {
      const { restoreBackup } = await import('./backup-restore.ts');
      await restoreBackup(session, options, folder);
    });
  backup.action<BackupOptions>(async (session, options, folder) => {
    const { createBackup } = await import('./backup-create.ts');
    await createBackup(session, options, folder);
  });
}
