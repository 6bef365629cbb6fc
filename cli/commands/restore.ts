/**
 * `headgate snapshot restore FILE --new-log`: recovery from a lost or truncated log. Creates a new log with a new id,
 * whose commits restore the state of a snapshot (or of an exported log) and whose first record names the log that it
 * replaces. The plan is folded before it is written, and the log is read back afterwards: both must give the same
 * digests.
 */
import { resolve } from 'node:path';
import { fingerprintOf, loadSigner, type Signer } from '../../shared/log/core/signing.ts';
import { protectedSettingOf, SecretUnusable } from '../../shared/runtime/secrets.ts';
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
      'a state can be restored only to a new log: add --new-log',
      `headgate snapshot restore ${file} --new-log --dry-run`,
    );
  const source = await openRestoreSource(resolve(session.io.cwd, file));
  try {
    const signer = signerOf(session, source.snapshot.head.signers);
    const others = (options.signer ?? []).map((path) => readPublicKey(session, path));
    if (others.length > 0 && !signer)
      throw usageError(
        '--signer adds further signers, but there is no first one',
        'set HEADGATE_SIGNING_KEY',
      );
    const plan = planRestore(source.snapshot, signer, others);
    showPlan(session, file, source, plan);
    await confirmDestructive(session, plan.log, `create the new log ${plan.log}`);
    if (!session.globals.dryRun) await writeRestore(session, plan);
    await session.out.lines(
      [
        session.globals.dryRun
          ? 'nothing was written, and the log was not opened'
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

/** Only a signer of the old log may create the successor of a signed log; an unsigned log may become signed. */
function signerOf(session: Session, signers: readonly string[]): Signer | undefined {
  const path = signingKeyPath(session);
  const signer = path ? loadSigner(resolve(session.io.cwd, path)) : undefined;
  if (signers.length === 0 || (signer && signers.includes(signer.publicKey))) return signer;
  throw new CliError(
    'the log of this snapshot was signed, and HEADGATE_SIGNING_KEY is not the key of one of its signers',
    {
      type: 'Usage',
      next: 'set HEADGATE_SIGNING_KEY to the PEM file of a signer',
    },
  );
}

function signingKeyPath({ io: { env } }: Session): string | undefined {
  try {
    return protectedSettingOf('HEADGATE_SIGNING_KEY', env);
  } catch (error) {
    if (error instanceof SecretUnusable) throw usageError(error.message);
    throw error;
  }
}

function showPlan(
  session: Session,
  file: string,
  source: RestoreSource,
  { log, signers, records }: RestorePlan,
): void {
  const { snapshot } = source;
  session.note(
    `${file} contains the state of log ${snapshot.log} at position ${snapshot.seq}: ${source.counts().join(', ')}`,
  );
  session.note(`it will be restored to a new log, ${log}, in ${records.length} commits; API keys stay valid`);
  session.note(
    signers.length > 0
      ? `signers of the new log: ${signers.map(fingerprintOf).join(', ')}; the signers of the old log are not kept`
      : 'the new log is not signed: set HEADGATE_SIGNING_KEY to sign it',
  );
  session.note(`commands after position ${snapshot.seq} are lost`);
  session.note('the health of nodes is determined again; usage is stored elsewhere and is not changed');
}
