/**
 * Signers that a process was given beside the log (`--trust-signer`). Of a log that it meets for the first time a process
 * knows nothing else: anybody who may write to an empty topic could begin a log there, with signers of their own or with none.
 * A pin holds for the first record. Later changes of the signers are signed by those before them.
 */
import { readFileSync } from 'node:fs';
import { emptyHead, judge } from './chain.ts';
import { type LogRecord, LogReplaced } from './control-log.ts';
import { fingerprintOf, publicKeyIn, SigningKeyUnusable, verify } from './signing.ts';

export class TrustedSigners {
  readonly #fingerprints: ReadonlySet<string>;

  /** Each is a fingerprint, a public key in base64, or the path of a PEM file with one. Throws SigningKeyUnusable. */
  constructor(pins: readonly string[]) {
    this.#fingerprints = new Set(pins.map(fingerprintIn));
  }

  has(publicKey: string): boolean {
    return this.#fingerprints.has(fingerprintOf(publicKey));
  }

  /** Throws LogReplaced where the first of these records that begins a log is signed by none of them. */
  checkBeginning(records: readonly LogRecord[]): void {
    for (const record of records) {
      const judgement = judge(emptyHead(), record);
      if (!('accepted' in judgement)) continue;
      const { log, signers } = judgement.head;
      const trusted = signers.filter((signer) => this.has(signer));
      if (!verify(trusted, record.value, record.signature)) throw untrusted(log, signers);
      return;
    }
  }
}

/** Undefined where none are given. Throws SigningKeyUnusable. */
export function trustedSigners(pins: readonly string[] = []): TrustedSigners | undefined {
  return pins.length > 0 ? new TrustedSigners(pins) : undefined;
}

function untrusted(log: string | null, signers: readonly string[]): LogReplaced {
  const found =
    signers.length === 0
      ? 'it is not signed'
      : `it was begun by another of its signers ${signers.map(fingerprintOf).join(', ')}`;
  return new LogReplaced(
    `log ${log} is refused: no signer of --trust-signer signed its first record (${found}); ` +
      'see docs/operate.md, "Signatures"',
  );
}

function fingerprintIn(pin: string): string {
  // An empty one, as an unset variable gives it, must not mean that any log will do.
  if (pin.trim() === '')
    throw new SigningKeyUnusable('--trust-signer is empty: name a signer, or leave it out');
  if (/^[0-9a-f]{64}$/i.test(pin)) return pin.toLowerCase();
  if (/^[A-Za-z0-9+/]{59}=$/.test(pin)) return fingerprintOf(publicKeyIn(pin, 'a value of --trust-signer'));
  let pem: string;
  try {
    pem = readFileSync(pin, 'utf8');
  } catch (error) {
    throw new SigningKeyUnusable(
      '--trust-signer takes a fingerprint, a public key in base64 or the path of its PEM file; no file can be read at ' +
        pin,
      { cause: error },
    );
  }
  return fingerprintOf(publicKeyIn(pem, pin));
}
