/**
 * Reads all secrets by the same rules: an empty or blank variable is refused, NAME_FILE names a file that has the value of NAME,
 * and a Headgate token has at least 16 printable characters. Errors name the variable or the file, never the value.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { textOfNamed } from './named-file.ts';
import { writeFileAtomically } from './ready-file.ts';
import { type Environment, environment, readSetting } from './settings.ts';

/** A shorter token could be guessed over the network. */
export const tokenLengthMin = 16;
const tokenLengthMax = 4096;

/** The message names the variable or the file, and the next step for the operator. */
export class SecretUnusable extends Error {
  override readonly name = 'SecretUnusable';
}

/**
 * A setting that is a secret, or says where a key is or who is trusted; undefined where the variable is unset. Throws
 * SecretUnusable where it is blank: who sets it expects that it protects, and without it a process would go unprotected.
 */
export function readProtectedSetting(variable: string, from: Environment = environment): string | undefined {
  if (from[variable]?.trim() !== '') return readSetting(variable, from);
  throw new SecretUnusable(`${variable} is empty; set ${variable} to its value, or unset it`);
}

/**
 * The text of the file that NAME_FILE names, as systemd and orchestrators hand secrets over; undefined where that is unset.
 * Throws SecretUnusable where NAME is set too, because one of them would be ignored.
 */
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
      `the file ${path} of ${variable}_FILE has more than ${tokenLengthMax} bytes; it is to have the secret alone`,
    );
  return text;
}

/** A file of any size or kind may be named: no more is read than shows that it is too large with its line end. */
function readBeginning(path: string, variable: string): string {
  try {
    const file = openSync(path, 'r');
    try {
      const bytes = Buffer.alloc(tokenLengthMax + 3);
      let length = 0;
      // A pipe gives its bytes in pieces.
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

/** A token of Headgate; undefined where the variable is unset. Throws SecretUnusable. */
export function readSecret(variable: string, from: Environment = environment): string | undefined {
  const value = secretFile(variable, from)?.trim() ?? readProtectedSetting(variable, from);
  if (value === undefined || isToken(value)) return value;
  throw new SecretUnusable(
    `${variable} must have at least ${tokenLengthMin} printable characters without spaces; set it to a longer random text`,
  );
}

/** Reads a secret. Throws SecretUnusable, also if the variable is unset. `how` says what to set it to. */
export function requiredSecret(
  variable: string,
  how = `a random text of at least ${tokenLengthMin} printable characters`,
  from: Environment = environment,
): string {
  const value = readSecret(variable, from);
  if (value !== undefined) return value;
  throw new SecretUnusable(`set ${variable} to ${how}`);
}

/** A secret that another system issues: verbatim, of any length, on one line. Throws SecretUnusable. */
export function readForeignSecret(variable: string, from: Environment = environment): string | undefined {
  const value = secretFile(variable, from) ?? (readProtectedSetting(variable, from) && from[variable]);
  if (value === undefined) return undefined;
  if (/^\P{Cc}+$/u.test(value)) return value;
  throw new SecretUnusable(`${variable} must be one line without control characters`);
}

/** Is the text long enough and printable? */
export function isToken(text: string): boolean {
  return text.length >= tokenLengthMin && text.length <= tokenLengthMax && /^[\x21-\x7e]+$/.test(text);
}

/** Compares in constant time. False where either side is missing or empty, so that an unset secret grants no access. */
export function isSameSecret(given: string | undefined, wanted: string | undefined): boolean {
  if (!given || !wanted) return false;
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

/** Reads a token file, or generates it where it does not exist. Throws SecretUnusable. */
export function persistentToken(path: string, prefix: string): string {
  if (!existsSync(path)) {
    const token = `${prefix}_${randomBytes(24).toString('base64url')}`;
    writeFileAtomically(path, `${token}\n`);
    return token;
  }
  const token = textOfNamed(path).trim();
  if (isToken(token)) return token;
  throw new SecretUnusable(
    `the token file ${path} is empty or damaged; delete it, and the next start makes another`,
  );
}
