/** Reads all secrets by the same rules. NAME_FILE may name a file with NAME's value. Errors never contain the value. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { textOfNamed } from './named-file.ts';
import { writeFileAtomically } from './ready-file.ts';
import { type Environment, environment, readSetting } from './settings.ts';

/** Minimum length of a token, because someone could guess a shorter one over the network. */
export const tokenLengthMin = 16;
const tokenLengthMax = 4096;

/** Thrown if a secret is missing or invalid. The message names the variable or the file, and says what to do. */
export class SecretUnusable extends Error {
  override readonly name = 'SecretUnusable';
}

/**
 * Reads a setting that is a secret, locates a key or names a trusted party. Returns undefined if the variable is unset.
 * Throws `SecretUnusable` if it is blank, because whoever set it expects protection.
 */
export function readProtectedSetting(variable: string, from: Environment = environment): string | undefined {
  if (from[variable]?.trim() !== '') return readSetting(variable, from);
  throw new SecretUnusable(`${variable} is empty; set ${variable} to its value, or unset it`);
}

/** Returns the text of the file in NAME_FILE, or undefined if that is unset. Throws `SecretUnusable` if NAME is also set. */
function secretFile(variable: string, from: Environment): string | undefined {
  const path = readProtectedSetting(`${variable}_FILE`, from);
  if (path === undefined) return undefined;
  if (readProtectedSetting(variable, from) !== undefined)
    throw new SecretUnusable(`${variable} and ${variable}_FILE are both set; unset one of them`);
  const text = readBeginning(path, variable).replace(/\r?\n$/, '');
  if (text.trim() === '')
    throw new SecretUnusable(`the file ${path} of ${variable}_FILE is empty; write the secret to it`);
  if (Buffer.byteLength(text) > tokenLengthMax)
    throw new SecretUnusable(
      `the file ${path} of ${variable}_FILE has more than ${tokenLengthMax} bytes; it must contain only the secret`,
    );
  return text;
}

/** Reads only the beginning of a file, which may be of any size. That suffices to notice that the file is too large. */
function readBeginning(path: string, variable: string): string {
  try {
    const file = openSync(path, 'r');
    try {
      const bytes = Buffer.alloc(tokenLengthMax + 3);
      let length = 0;
      // Read until the end of the file, because a pipe returns its bytes in pieces.
      for (let read = -1; read !== 0 && length < bytes.length; length += read)
        read = readSync(file, bytes, length, bytes.length - length, null);
      return bytes.toString('utf8', 0, length);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new SecretUnusable(`cannot read the file ${path} of ${variable}_FILE`, { cause: error });
  }
}

/** Reads a Headgate token. Returns undefined if the variable is unset. Throws `SecretUnusable` if the token is invalid. */
export function readSecret(variable: string, from: Environment = environment): string | undefined {
  const value = secretFile(variable, from)?.trim() ?? readProtectedSetting(variable, from);
  if (value === undefined || isToken(value)) return value;
  throw new SecretUnusable(
    `${variable} must have at least ${tokenLengthMin} printable characters without spaces; set it to a longer random text`,
  );
}

/** Reads a secret. Throws `SecretUnusable` if it is unset or invalid. `how` tells the operator what to set it to. */
export function requiredSecret(
  variable: string,
  how = `a random text of at least ${tokenLengthMin} printable characters`,
  from: Environment = environment,
): string {
  const value = readSecret(variable, from);
  if (value !== undefined) return value;
  throw new SecretUnusable(`set ${variable} to ${how}`);
}

/** Reads a secret issued by another system: a single line of any length, unchanged. Throws `SecretUnusable`. */
export function readForeignSecret(variable: string, from: Environment = environment): string | undefined {
  const value = secretFile(variable, from) ?? (readProtectedSetting(variable, from) && from[variable]);
  if (value === undefined) return undefined;
  if (/^\P{Cc}+$/u.test(value)) return value;
  throw new SecretUnusable(`${variable} must be one line without control characters`);
}

/** Whether the text consists of printable characters and is long enough for a token. */
export function isToken(text: string): boolean {
  return text.length >= tokenLengthMin && text.length <= tokenLengthMax && /^[\x21-\x7e]+$/.test(text);
}

/** Compares in constant time. Returns false if either is missing or empty, so that an unset secret never grants access. */
export function isSameSecret(given: string | undefined, wanted: string | undefined): boolean {
  if (!given || !wanted) return false;
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

/** Reads a token from a file, which is created with a random token if it is missing. Throws `SecretUnusable`. */
export function persistentToken(path: string, prefix: string): string {
  if (!existsSync(path)) {
    const token = `${prefix}_${randomBytes(24).toString('base64url')}`;
    writeFileAtomically(path, `${token}\n`);
    return token;
  }
  const token = textOfNamed(path).trim();
  if (isToken(token)) return token;
  throw new SecretUnusable(
    `the token file ${path} is empty or damaged; delete it, and the next start creates a new one`,
  );
}
