/**
 * `headgate snapshot restore FILE --new-log`: the way back from a lost or truncated log. Begins a new log, under a new id,
 * whose commits bring back the state of a snapshot (or of an exported log), and says in its first record which log it
 * takes the place of. What it will write is folded first, and what it wrote is read back: both must give the same digests.
 */
import { resolve } from 'node:path';
import { fingerprintOf, loadSigner, type Signer } from '../../shared/log/core/signing.ts';
import { settingOf } from '../../shared/runtime/secrets.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { planRestore, type RestorePlan } from './restore-plan.ts';
import { openRestoreSource, type RestoreSource } from './restore-source.ts';
import { writeRestore } from './restore-writer.ts';
import { readPublicKey } from './signers.ts';

export interface RestoreOptions {
  readonly newLog?: boolean;
  /** PEM files of further public keys. */
  readonly signer?: readonly string[];
}

export async function restore(session: Session, options: RestoreOptions, file: string): Promise<void> {
  if (!options.newLog)
    throw usageError(
      'a state is brought back on a new log only: say --new-log',
      `headgate snapshot restore ${file} --new-log --dry-run`,
    );
  const source = await openRestoreSource(resolve(session.io.cwd, file));
  try {
    const signer = signerOf(session, source.snapshot.head.signers);
    const others = (options.signer ?? []).map((path) => readPublicKey(session, path));
    if (others.length > 0 && !signer)
      throw usageError(
        '--signer names further signers, and there is no first one',
        'set HEADGATE_SIGNING_KEY',
      );
    const plan = planRestore(source.snapshot, signer, others);
    showPlan(session, file, source, plan);
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
        signers: plan.signers.map(fingerprintOf),
        digests: plan.digests,
        ...(session.globals.dryRun && { dryRun: true }),
      },
      plan.log,
    );
  } finally {
    source.close();
  }
}

/** A signed log is followed only by one that a signer of its own began; a log that was not signed may be from now on. */
function signerOf(session: Session, signers: readonly string[]): Signer | undefined {
  const path = settingOf('HEADGATE_SIGNING_KEY', session.io.env);
  const signer = path ? loadSigner(resolve(session.io.cwd, path)) : undefined;
  if (signers.length === 0 || (signer && signers.includes(signer.publicKey))) return signer;
  throw new CliError('the log of this snapshot was signed, and no key of one of its signers is given', {
    type: 'Usage',
    exitCode: 2,
    next: 'set HEADGATE_SIGNING_KEY to the PEM file of a signer',
  });
}

function showPlan(
  session: Session,
  file: string,
  source: RestoreSource,
  { log, signers, records }: RestorePlan,
): void {
  const { snapshot } = source;
  session.note(
    `${file} holds the state of log ${snapshot.log} at position ${snapshot.seq}: ${source.counts().join(', ')}`,
  );
  session.note(
    `it is brought back on a new log, ${log}, in ${records.length} commits; keys stay what they were`,
  );
  session.note(
    signers.length > 0
      ? `its signers are ${signers.map(fingerprintOf).join(', ')}; no others are taken over`
      : 'it is not signed: set HEADGATE_SIGNING_KEY to sign it',
  );
  session.note(`what was commanded after position ${snapshot.seq} is not in it`);
  session.note('nodes are found healthy anew; usage and its totals are kept elsewhere and are not touched');
}
