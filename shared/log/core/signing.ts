/**
 * Signs and verifies the control log's records with Ed25519. A signature covers a record's raw bytes. If a log names signers,
 * write access to its topic is not enough to add a record. Error messages never contain anything from a key file, only its
 * path.
 */
import {
  createPrivateKey,
  createPublicKey,
  hash,
  type KeyObject,
  sign,
  verify as verifyOne,
} from 'node:crypto';
import { BoundedMap } from '../../runtime/bounded-map.ts';
import { errorCode } from '../../runtime/error-code.ts';
import { NoRegularFile, textOfNamed } from '../../runtime/named-file.ts';

export const signatureBytes = 64;

export interface Signer {
  /** Public key as SPKI DER in base64, as in `log.created`. */
  readonly publicKey: string;
  sign(raw: Uint8Array): Buffer;
}

/** Thrown if a key file cannot be used. The message says what to do. */
export class SigningKeyUnusable extends Error {
  override readonly name = 'SigningKeyUnusable';
}

const howToMake = 'make one with: openssl genpkey -algorithm ed25519 -out FILE';

/** Whether a value looks like a key rather than a path, because error messages must not quote keys. */
const isPem = (text: string): boolean => /-----BEGIN|[\r\n]/.test(text);

/** Reads HEADGATE_SIGNING_KEY: an Ed25519 private key as unencrypted PEM, or its path. Throws `SigningKeyUnusable`. */
export function loadSigner(value: string): Signer {
  const named = isPem(value) ? 'in HEADGATE_SIGNING_KEY' : value;
  const key = parsePrivateKey(isPem(value) ? value : readPem(value), named);
  if (key.asymmetricKeyType !== 'ed25519')
    throw new SigningKeyUnusable(
      `the signing key ${named} is of type ${key.asymmetricKeyType}, not ed25519; ${howToMake}`,
    );
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' }).toString('base64');
  return { publicKey, sign: (raw) => sign(null, raw, key) };
}

function readPem(path: string): string {
  try {
    return textOfNamed(path);
  } catch (error) {
    const code = errorCode(error) ?? (error instanceof NoRegularFile ? error.message : 'unreadable');
    const next = code === 'ENOENT' ? howToMake : 'check the path and its permissions';
    throw new SigningKeyUnusable(`cannot read the signing key ${path} (${code}); ${next}`, { cause: error });
  }
}

function parsePrivateKey(pem: string, path: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    throw new SigningKeyUnusable(`the signing key ${path} ${describePemFault(pem)}`, { cause: error });
  }
}

function describePemFault(pem: string): string {
  if (/-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(pem))
    return 'is encrypted; decrypt it first with: openssl pkey -in FILE -out PLAIN-FILE';
  if (pem.includes('-----BEGIN PUBLIC KEY')) return 'is a public key; use the private key';
  return `does not contain a private key in PEM format; ${howToMake}`;
}

/** Name of a signer in options and output: the SHA-256 of its public key's DER, in hex. */
export function computeFingerprint(publicKey: string): string {
  return hash('sha256', Buffer.from(publicKey, 'base64'), 'hex');
}

/** Converts a public key from PEM or base64 DER to the log's format. Throws `SigningKeyUnusable`, which names `where`. */
export function normalisePublicKey(text: string, where: string): string {
  if (text.includes('PRIVATE KEY'))
    throw new SigningKeyUnusable(
      `${where} is a private key; give its public part: openssl pkey -in FILE -pubout -out PUBLIC-FILE`,
    );
  const key = text.includes('-----BEGIN') ? parsePublicPem(text) : parsePublicKey(text.trim());
  if (key?.asymmetricKeyType !== 'ed25519')
    throw new SigningKeyUnusable(
      `${where} does not contain an Ed25519 public key; make one with: openssl pkey -in KEY-FILE -pubout -out PUBLIC-FILE`,
    );
  return key.export({ type: 'spki', format: 'der' }).toString('base64');
}

function parsePublicPem(pem: string): KeyObject | null {
  try {
    return createPublicKey(pem);
  } catch {
    return null;
  }
}

/** Cache of parsed public keys. It is bounded because a forged record may contain any number of keys. */
const publicKeys = new BoundedMap<string, KeyObject | null>(64, 'all');

/** Whether the signature of `raw` was made with one of these keys. Never throws. An unreadable key never matches. */
export function verify(signers: readonly string[], raw: Uint8Array, signature: Uint8Array | null): boolean {
  if (signature?.length !== signatureBytes) return false;
  return signers.some((signer) => {
    const key = parseCachedKey(signer);
    return key !== null && verifyOne(null, raw, key, signature);
  });
}

function parseCachedKey(signer: string): KeyObject | null {
  const known = publicKeys.get(signer);
  return known === undefined ? publicKeys.keep(signer, parsePublicKey(signer)) : known;
}

function parsePublicKey(signer: string): KeyObject | null {
  try {
    const key = createPublicKey({ key: Buffer.from(signer, 'base64'), format: 'der', type: 'spki' });
    return key.asymmetricKeyType === 'ed25519' ? key : null;
  } catch {
    return null;
  }
}
