/**
 * API keys (Resources, API key; Authentication 3). A key is `hg_`, 34 random base62 characters, and 6 with the CRC-32 of all
 * that precedes. The checksum detects typing errors without a look-up and is not a secret. Only a key's SHA-256 is stored.
 */
import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Returns the given number of unpredictable bytes. */
export type RandomSource = (bytes: number) => Uint8Array;

/** Text of a key with a valid checksum. The key may still be unknown, revoked or expired. */
export type KeyText = string & { readonly __keyText: true };

const keyPrefix = 'hg';
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const base36 = '0123456789abcdefghijklmnopqrstuvwxyz';
const randomLength = 34;
const checksumLength = 6;
const keyPattern = new RegExp(`^${keyPrefix}_[0-9A-Za-z]{${randomLength + checksumLength}}$`);

/** Draws characters from `alphabet` (at most 256). Draws some bytes again, so that all characters are equally likely. */
export function randomText(random: RandomSource, alphabet: string, length: number): string {
  const bound = 256 - (256 % alphabet.length);
  let text = '';
  while (text.length < length) {
    for (const byte of random(length - text.length)) {
      if (byte < bound) text += alphabet.charAt(byte % alphabet.length);
    }
  }
  return text;
}

/** Creates an id with 16 random characters (82 bits), such as `key-…` or `tok-…`. It reveals nothing about any secret. */
export function mintId(random: RandomSource, kind: string): string {
  return `${kind}-${randomText(random, base36, 16)}`;
}

/** Derives an id from a text. It has the same format as an id from `mintId`. */
export function derivedId(kind: string, text: string): string {
  const number = BigInt(`0x${hash('sha256', text)}`);
  return `${kind}-${number.toString(36).slice(-16).padStart(16, '0')}`;
}

export function mintKey(random: RandomSource): KeyText {
  const body = `${keyPrefix}_${randomText(random, base62, randomLength)}`;
  return (body + checksum(body)) as KeyText;
}

/** Parses a key. Returns undefined, without a reason, if its format or checksum is wrong. */
export function parseKey(text: string): KeyText | undefined {
  if (!keyPattern.test(text)) return undefined;
  const body = text.slice(0, -checksumLength);
  return text.endsWith(checksum(body)) ? (text as KeyText) : undefined;
}

/** SHA-256 of a key's text, as stored in the log and the snapshot. A key has 202 random bits, so it needs no salt. */
export function hashKey(key: KeyText): Buffer {
  return hashSecret(key);
}

/** Creates a token for a node agent: `ngt_`, followed by 256 random bits in base64url. */
export function mintNodeToken(random: RandomSource): string {
  return `ngt_${Buffer.from(random(32)).toString('base64url')}`;
}

/** SHA-256 of a secret that was generated at random. Do not use it for passwords, because it is unsalted and fast. */
export function hashSecret(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

function checksum(body: string): string {
  let rest = crc32(body);
  let digits = '';
  for (let place = 0; place < checksumLength; place++) {
    digits = base62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
