/**
 * Encrypts texts with AES-256-GCM so that only processes with the same token can read or create them. The key is derived from
 * the token. So all replicas accept each other's texts, and a new token invalidates all of them.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { z } from 'zod';

const ivBytes = 12;
const tagBytes = 16;
/** Maximum length of a sealed text that is accepted. Longer texts were not sealed by this code. */
const textLengthMaxDefault = 2048;

export class Sealer {
  readonly #key: Buffer;
  readonly #textLengthMax: number;

  /** `purpose` separates uses of one token: a text sealed for one purpose is not accepted for another. */
  constructor(token: string, purpose: string, textLengthMax = textLengthMaxDefault) {
    this.#textLengthMax = textLengthMax;
    this.#key = Buffer.from(hkdfSync('sha256', token, '', `headgate ${purpose} v1`, 32));
  }

  seal(content: object): string {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv);
    const sealed = Buffer.concat([cipher.update(JSON.stringify(content), 'utf8'), cipher.final()]);
    return Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64url');
  }

  /** Decrypts a text. Returns undefined if it was not sealed with this key or does not match the schema. Never throws. */
  open<Schema extends z.ZodType>(text: string, schema: Schema): z.output<Schema> | undefined {
    if (text.length > this.#textLengthMax) return undefined;
    const raw = Buffer.from(text, 'base64url');
    if (raw.length <= ivBytes + tagBytes) return undefined;
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#key, raw.subarray(0, ivBytes), {
        authTagLength: tagBytes,
      });
      decipher.setAuthTag(raw.subarray(raw.length - tagBytes));
      const content = decipher.update(raw.subarray(ivBytes, raw.length - tagBytes));
      return schema.safeParse(JSON.parse(Buffer.concat([content, decipher.final()]).toString('utf8'))).data;
    } catch {
      return undefined;
    }
  }
}
