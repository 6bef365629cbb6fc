/**
 * Ed25519 signatures of the control log: where a log names signers, write access to its topic is not enough for a record to
 * count. A signature covers a record's raw bytes and is stored with them.
 * The private key stays inside `Signer`; error texts contain nothing of a key file except its path.
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

/** Length of every Ed25519 signature. */
export const signatureBytes = 64;

export interface Signer {
  /** SPKI DER in base64, as `log.created` names it. */
  readonly publicKey: string;
  /** The signature over a record's raw bytes. */
  sign(raw: Uint8Array): Buffer;
}

/** The key file cannot be used; the message contains the next step. */
export class SigningKeyUnusable extends Error {
  override readonly name = 'SigningKeyUnusable';
}

const howToMake = 'make one with: openssl genpkey -algorithm ed25519 -out FILE';

/** What a value is taken for that is a secret itself: no error quotes it. */
const isPem = (text: string): boolean => /-----BEGIN|[\r\n]/.test(text);

/**
 * Reads an unencrypted Ed25519 private key (HEADGATE_SIGNING_KEY): the path of a PEM file, or the PEM itself. Throws
 * SigningKeyUnusable.
 */
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
    throw new SigningKeyUnusable(`the signing key ${path} ${whatIsWrong(pem)}`, { cause: error });
  }
}

function whatIsWrong(pem: string): string {
  if (/-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(pem))
    return 'is encrypted; decrypt it first with: openssl pkey -in FILE -out PLAIN-FILE';
  if (pem.includes('-----BEGIN PUBLIC KEY')) return 'is a public key; the private one is needed';
  return `holds no private key in PEM form; ${howToMake}`;
}

/** The name of a signer in flags and output: SHA-256 of its public key's DER, hex. */
export function fingerprintOf(publicKey: string): string {
  return hash('sha256', Buffer.from(publicKey, 'base64'), 'hex');
}

/**
 * The public key in a text, PEM or base64 of its SPKI DER, in the form that is stored in logs. Throws
 * SigningKeyUnusable; `where` is how the message names the text.
 */
export function publicKeyIn(text: string, where: string): string {
  if (text.includes('PRIVATE KEY'))
    throw new SigningKeyUnusable(
      `${where} is a private key; give its public part: openssl pkey -in FILE -pubout -out PUBLIC-FILE`,
    );
  const key = text.includes('-----BEGIN') ? parsePublicPem(text) : parsePublicKey(text.trim());
  if (key?.asymmetricKeyType !== 'ed25519')
    throw new SigningKeyUnusable(
      `${where} holds no Ed25519 public key; make one with: openssl pkey -in KEY-FILE -pubout -out PUBLIC-FILE`,
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

/** Parsed public keys; bounded, because a forged record may name any number. */
const publicKeys = new BoundedMap<string, KeyObject | null>(64, 'all');

/** Whether the signature over `raw` is by one of these keys. Never throws; an unreadable key verifies no signature. */
export function verify(signers: readonly string[], raw: Uint8Array, signature: Uint8Array | null): boolean {
  if (signature?.length !== signatureBytes) return false;
  return signers.some((signer) => {
    const key = publicKeyOf(signer);
    return key !== null && verifyOne(null, raw, key, signature);
  });
}

function publicKeyOf(signer: string): KeyObject | null {
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
