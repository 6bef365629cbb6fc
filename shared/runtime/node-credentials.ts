/** Credentials of nodes by name, from `HEADGATE_NODE_CREDENTIAL_<NAME>` or a folder's files. Each use reads them again. */
import { join } from 'node:path';
import { textOfNamed } from './named-file.ts';
import { readProtectedSetting } from './secrets.ts';
import { type Environment, environment } from './settings.ts';

const prefix = 'HEADGATE_NODE_CREDENTIAL_';

export type CredentialSource = (name: string) => string | undefined;

/** Throws SecretUnusable if a credential in the environment is blank. */
export function nodeCredentials(
  folder: string | undefined,
  from: Environment = environment,
): CredentialSource {
  for (const variable of Object.keys(from))
    if (variable.startsWith(prefix)) readProtectedSetting(variable, from);
  return (name) => {
    if (!/^[A-Za-z0-9_]{1,64}$/.test(name)) return undefined;
    const fromEnvironment = readProtectedSetting(prefix + name.toUpperCase(), from);
    const value = fromEnvironment ?? (folder === undefined ? undefined : readIfPresent(join(folder, name)));
    // Accepts only characters that a header line can contain. The inference server limits the length.
    return value !== undefined && /^[\x20-\x7e]+$/.test(value) ? value : undefined;
  };
}

function readIfPresent(path: string): string | undefined {
  try {
    return textOfNamed(path).trim();
  } catch {
    return undefined;
  }
}
