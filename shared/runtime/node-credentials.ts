/** Credentials of nodes by name, from `HEADGATE_NODE_CREDENTIAL_<NAME>` or files in a folder. They are read at each use. */
import { join } from 'node:path';
import { textOfNamed } from './named-file.ts';
import { readProtectedSetting } from './secrets.ts';
import { type Environment, environment } from './settings.ts';

const prefix = 'HEADGATE_NODE_CREDENTIAL_';

export type CredentialSource = (name: string) => string | undefined;

/** Returns a function that reads a credential by name. Throws `SecretUnusable` if one in the environment is blank. */
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
    // Accept only characters that a header line may contain. The inference server limits the length.
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
