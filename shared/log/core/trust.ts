/**
 * Pinned signers (`--trust-signer`) tell a process which log to trust when it first reads one. Without pins, anyone who can
 * write to an empty topic could start a log. Pins are checked against the first record only, because a change of the signers
 * must itself be signed.
 */
import { textOfNamed } from '../../runtime/named-file.ts';
import { emptyHead, judge } from './chain.ts';
import { type LogRecord, LogReplaced } from './control-log.ts';
import { computeFingerprint, normalisePublicKey, SigningKeyUnusable, verify } from './signing.ts';

export class TrustedSigners {
  readonly #fingerprints: ReadonlySet<string>;

  /** Each pin is a fingerprint, a public key in base64 or the path of a PEM file. Throws `SigningKeyUnusable`. */
  constructor(pins: readonly string[]) {
    this.#fingerprints = new Set(pins.map(parsePin));
  }

  has(publicKey: string): boolean {
    return this.#fingerprints.has(computeFingerprint(publicKey));
  }

  /** Checks a log's first record. Returns false if there is none. Throws `LogReplaced` unless a pinned signer signed it. */
  checkBeginning(records: readonly LogRecord[]): boolean {
    for (const record of records) {
      const judgement = judge(emptyHead(), record);
      if (!('accepted' in judgement)) continue;
      const { log, signers } = judgement.head;
      const trusted = signers.filter((signer) => this.has(signer));
      if (!verify(trusted, record.value, record.signature)) throw untrustedError(log, signers);
      return true;
    }
    return false;
  }
}

/** Returns the pinned signers, or undefined if there are none. Throws `SigningKeyUnusable`. */
export function parsePins(pins: readonly string[] = []): TrustedSigners | undefined {
  return pins.length > 0 ? new TrustedSigners(pins) : undefined;
}

function untrustedError(log: string | null, signers: readonly string[]): LogReplaced {
  const found =
    signers.length === 0
      ? 'it is not signed'
      : `it was begun by another of its signers ${signers.map(computeFingerprint).join(', ')}`;
  return new LogReplaced(
    `log ${log} is refused: no signer of --trust-signer signed its first record (${found}); ` +
      'see docs/security.md, "Signatures"',
  );
}

function parsePin(pin: string): string {
  // Refuse an empty pin, for example from an unset variable, because it must not disable the check.
  if (pin.trim() === '')
    throw new SigningKeyUnusable('--trust-signer is empty; name a signer, or leave the option out');
  if (/^[0-9a-f]{64}$/i.test(pin)) return pin.toLowerCase();
  if (/^[A-Za-z0-9+/]{59}=$/.test(pin))
    return computeFingerprint(normalisePublicKey(pin, 'a value of --trust-signer'));
  let pem: string;
  try {
    pem = textOfNamed(pin);
  } catch (error) {
    throw new SigningKeyUnusable(
      '--trust-signer takes a fingerprint, a public key in base64 or the path of its PEM file; no file can be read at ' +
        pin,
      { cause: error },
    );
  }
  return computeFingerprint(normalisePublicKey(pem, pin));
}
