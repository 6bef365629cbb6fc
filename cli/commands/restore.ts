/**
 * `headgate snapshot restore FILE --new-log`: the way back from a lost or truncated log. Begins a new log, under a new id,
 * whose commits bring back the state of a snapshot (or of an exported log), and says in its first record which log it
 * takes the place of. What it will write is folded first, and what it wrote is read back: both must give the same digests.
 */
import { resolve } from 'node:path';
import { loadSigner, type Signer } from '../../shared/log/signing.ts';
import { settingOf } from '../../shared/process/secrets.ts';
import { confirmDestructive } from '../confirm.ts';
import { CliError, usageError } from '../errors.ts';
import type { Session } from '../session.ts';
import { planRestore, type RestorePlan } from './restore-plan.ts';
import { openRestoreSource, type RestoreSource } from './restore-source.ts';
import { writeRestore } from './restore-writer.ts';

export interface RestoreOptions {
  readonly newLog?: boolean;
}

export async function restore(session: Session, options: RestoreOptions, file: string): Promise<void> {
  if (!options.newLog)
    throw usageError(
      'a state is brought back on a new log only: say --new-log',
      `headgate snapshot restore ${file} --new-log --dry-run`,
    );
  const source = await openRestoreSource(resolve(session.io.cwd, file));
  try {
    const plan = planRestore(source.snapshot, signerOf(session, source.snapshot.head.signers));
    tellPlan(session, file, source, plan);
    await confirmDestructive(session, plan.log, `begin the new log ${plan.log}`);
    if (!session.globals.dryRun) await writeRestore(session, plan);
    await session.out.lines(
      [
        session.globals.dryRun
          ? 'nothing was written, and the log was not looked at'
          : `restored as log ${plan.log} at position ${plan.records.length}; start the control planes now`,
      ],
      {
        log: plan.log,
        position: plan.records.length,
        from: { log: source.snapshot.log, position: source.snapshot.seq },
        digests: plan.digests,
        ...(session.globals.dryRun && { dryRun: true }),
      },
      plan.log,
    );
  } finally {
    source.close();
  }
}

/** A signed log is followed only by one that a signer of its own began. */
function signerOf(session: Session, signers: readonly string[]): Signer | undefined {
  const path = settingOf('HEADGATE_SIGNING_KEY', session.io.env);
  if (signers.length === 0) return undefined;
  const signer = path ? loadSigner(resolve(session.io.cwd, path)) : undefined;
  if (signer && signers.includes(signer.publicKey)) return signer;
  throw new CliError('the log of this snapshot was signed, and no key of one of its signers is given', {
    type: 'Usage',
    exitCode: 2,
    next: 'set HEADGATE_SIGNING_KEY to the PEM file of a signer',
  });
}

function tellPlan(
  session: Session,
  file: string,
  source: RestoreSource,
  { log, records }: RestorePlan,
): void {
  const { snapshot } = source;
  session.note(
    `${file} holds the state of log ${snapshot.log} at position ${snapshot.seq}: ${source.counts().join(', ')}`,
  );
  session.note(
    `it is brought back on a new log, ${log}, in ${records.length} commits; keys stay what they were`,
  );
  session.note(`what was commanded after position ${snapshot.seq} is not in it`);
  session.note('nodes are found healthy anew; usage and its totals are kept elsewhere and are not touched');
}
