/**
 * Nodes' own credentials, by name: from `HEADGATE_NODE_CREDENTIAL_<NAME>`, or from a file of that name in a folder.
 * They enter neither the log nor the fleet file, and are read anew each time they are changed on disk.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { settingOf } from './secrets.ts';

export type CredentialSource = (name: string) => string | undefined;

export function nodeCredentials(folder?: string): CredentialSource {
  return (name) => {
    if (!/^[A-Za-z0-9_]{1,64}$/.test(name)) return undefined;
    const fromEnvironment = settingOf(`HEADGATE_NODE_CREDENTIAL_${name.toUpperCase()}`);
    const value = fromEnvironment ?? (folder === undefined ? undefined : textOf(join(folder, name)));
    // Only what one header line can carry; its length is the engine's to decide.
    return value !== undefined && /^[\x20-\x7e]+$/.test(value) ? value : undefined;
  };
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
