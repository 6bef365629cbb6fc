/** Checks whether this replica may write to the log. In a signed log, its key must be one of the current signers. */
import { computeFingerprint, type Signer } from '../../shared/log/core/signing.ts';
import { CommandError } from '../core/command-error.ts';

const guide = 'see docs/security.md, "Signatures"';

/**
 * Throws an error that aborts startup if the replica's key and the log's signers do not match. The message says what to do.
 */
export function checkSigner(
  signers: readonly string[],
  signer: Signer | undefined,
  allowUnsigned = false,
): void {
  if (!maySign(signers, signer))
    throw new Error(
      `this log is signed, but HEADGATE_SIGNING_KEY is not the key of one of its signers (${named(signers)}); ` +
        `add this replica's key on another replica with headgate signer add, ${guide}`,
    );
  if (signers.length === 0 && signer && !allowUnsigned)
    throw new Error(
      'HEADGATE_SIGNING_KEY is set, but this log is not signed: anyone with write access to it can create keys; to sign it from ' +
        `now on, start with --allow-unsigned and run headgate signer add PUBLIC-KEY-FILE, ${guide}`,
    );
}

/** Throws `CommandError` if readers of the log would reject this replica's records. */
export function checkMaySign(signers: readonly string[], signer: Signer | undefined): void {
  if (maySign(signers, signer)) return;
  throw new CommandError(
    'LogUnavailable',
    'this replica cannot write: its key is not among the signers of the log',
    { next: 'send the command to another replica, and give this replica the key of a signer' },
  );
}

export function maySign(signers: readonly string[], signer: Signer | undefined): boolean {
  return signers.length === 0 || (signer !== undefined && signers.includes(signer.publicKey));
}

function named(signers: readonly string[]): string {
  return signers.map(computeFingerprint).join(', ');
}
