/**
 * Encrypts reasoning that a client stores between turns, with AES-256-GCM and the organisation's key. Any gateway can decrypt
 * it, but only in requests of the same organisation. Text that cannot be decrypted is ignored.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** Maximum size in bytes of reasoning to encrypt. Longer reasoning is left out, because no part of it could be decrypted. */
export const sealedBytesMax = 256 * 1024;

const cipher = 'aes-256-gcm';
const prefix = 'hg1.';
const nonceBytes = 12;
const tagBytes = 16;
/** Maximum length of encrypted reasoning in characters. Base64 uses four characters for three bytes. */
const sealedCharactersMax = prefix.length + Math.ceil(((nonceBytes + tagBytes + sealedBytesMax) * 4) / 3);

/** Encrypts reasoning with a key of 32 bytes in base64url. Returns undefined if the text is too long. */
export function sealThoughts(text: string, key: string): string | undefined {
  if (Buffer.byteLength(text) > sealedBytesMax) return undefined;
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, Buffer.from(key, 'base64url'), nonce);
  const sealed = Buffer.concat([sealing.update(text, 'utf8'), sealing.final()]);
  return prefix + Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64url');
}

/** Decrypts reasoning. Returns undefined if the key is wrong or the text has been changed. Never throws. */
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
