/**
 * Thoughts as a client keeps them between turns: sealed by AES-256-GCM under the key of its organisation, so that any gateway opens
 * them, for that organisation alone, and nothing is stored. What does not open is as if it were not there.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** Longer thoughts go without: a part of them would not open. */
export const sealedBytesMax = 256 * 1024;

const cipher = 'aes-256-gcm';
const prefix = 'hg1.';
const nonceBytes = 12;
const tagBytes = 16;
/** Base64 has four characters for three bytes. */
const sealedCharactersMax = prefix.length + Math.ceil(((nonceBytes + tagBytes + sealedBytesMax) * 4) / 3);

/** `key`: 32 bytes as base64url. Undefined for thoughts that are too long. */
export function sealThoughts(text: string, key: string): string | undefined {
  if (Buffer.byteLength(text) > sealedBytesMax) return undefined;
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, Buffer.from(key, 'base64url'), nonce);
  const sealed = Buffer.concat([sealing.update(text, 'utf8'), sealing.final()]);
  return prefix + Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64url');
}

/** Undefined for what was not sealed under this key, or was changed since. Never throws. */
export function openThoughts(sealed: string, key: string): string | undefined {
  if (!sealed.startsWith(prefix) || sealed.length > sealedCharactersMax) return undefined;
  const bytes = Buffer.from(sealed.slice(prefix.length), 'base64url');
  if (bytes.length < nonceBytes + tagBytes) return undefined;
  try {
    const opening = createDecipheriv(
      cipher,
      Buffer.from(key, 'base64url'),
      bytes.subarray(0, nonceBytes),
    ).setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
    const text = opening.update(bytes.subarray(nonceBytes + tagBytes));
    return Buffer.concat([text, opening.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}
