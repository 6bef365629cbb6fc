/**
 * Nodes' own credentials, by name: from `HEADGATE_NODE_CREDENTIAL_<NAME>`, or from a file of that name in a folder.
 * They enter neither the log nor the fleet file, and are read anew each time they are changed on disk.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export type CredentialSource = (name: string) => string | undefined;

export function nodeCredentials(folder?: string): CredentialSource {
  return (name) => {
    if (!/^[A-Za-z0-9_]{1,64}$/.test(name)) return undefined;
    const fromEnvironment = process.env[`HEADGATE_NODE_CREDENTIAL_${name.toUpperCase()}`];
    if (fromEnvironment !== undefined) return fromEnvironment;
    if (folder === undefined) return undefined;
    try {
      return readFileSync(join(folder, name), 'utf8').trim();
    } catch {
      return undefined;
    }
  };
}
