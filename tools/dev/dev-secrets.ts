/**
 * Stores the keys and node tokens of `headgate dev`, because the admin API returns their values only once. Only the owner can
 * read the file. A revoked key or token is replaced at the next start.
 */
import { existsSync } from 'node:fs';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { writeJsonAtomically } from '../../shared/runtime/ready-file.ts';
import type { DevAdmin, DevSecret } from './dev-admin.ts';

/** Returns a key for each organisation, by the organisation's id. */
export async function demoKeys(admin: DevAdmin, path: string): Promise<Record<string, string>> {
  const active = new Set(await admin.activeKeys());
  const organisations = (await admin.organisations()).map(({ id }) => id);
  return reuseOrCreate(path, organisations, {
    isActive: async (_organisation, id) => active.has(id),
    make: (organisation) => admin.createKey(organisation, 'made by headgate dev'),
  });
}

/** Returns a token for each node, by the node's id. */
export function nodeTokens(
  admin: DevAdmin,
  path: string,
  nodes: readonly string[],
): Promise<Record<string, string>> {
  return reuseOrCreate(path, nodes, {
    isActive: async (node, id) => (await admin.activeNodeTokens(node)).includes(id),
    make: (node) => admin.createNodeToken(node),
  });
}

interface Source {
  isActive(owner: string, id: string): Promise<boolean>;
  make(owner: string): Promise<DevSecret>;
}

async function reuseOrCreate(
  path: string,
  owners: readonly string[],
  { isActive, make }: Source,
): Promise<Record<string, string>> {
  const stored: Record<string, DevSecret> = existsSync(path)
    ? (JSON.parse(textOfNamed(path)) as Record<string, DevSecret>)
    : {};
  const now: Record<string, DevSecret> = {};
  for (const owner of owners) {
    const before = stored[owner];
    now[owner] = before && (await isActive(owner, before.id)) ? before : await make(owner);
  }
  writeJsonAtomically(path, now);
  return Object.fromEntries(Object.entries(now).map(([owner, { value }]) => [owner, value]));
}
