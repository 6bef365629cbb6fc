/**
 * The keys and node tokens of `headgate dev`, made at the first start and kept in files of the data folder, for its owner's
 * eyes only: their values are shown once. One that was revoked is replaced at the next start.
 */
import { existsSync, readFileSync } from 'node:fs';
import { writeJsonAtomically } from '../shared/runtime/ready-file.ts';
import type { DevAdmin, DevSecret } from './dev-admin.ts';

/** A key for each organisation: its value by the organisation's id. */
export async function demoKeys(admin: DevAdmin, path: string): Promise<Record<string, string>> {
  const active = new Set(await admin.activeKeys());
  const organisations = (await admin.organisations()).map(({ id }) => id);
  return kept(path, organisations, {
    isActive: async (_organisation, id) => active.has(id),
    make: (organisation) => admin.createKey(organisation, 'made by headgate dev'),
  });
}

/** A token for each node: its value by the node's id. */
export function nodeTokens(
  admin: DevAdmin,
  path: string,
  nodes: readonly string[],
): Promise<Record<string, string>> {
  return kept(path, nodes, {
    isActive: async (node, id) => (await admin.activeNodeTokens(node)).includes(id),
    make: (node) => admin.createNodeToken(node),
  });
}

interface Source {
  isActive(owner: string, id: string): Promise<boolean>;
  make(owner: string): Promise<DevSecret>;
}

async function kept(
  path: string,
  owners: readonly string[],
  { isActive, make }: Source,
): Promise<Record<string, string>> {
  const stored: Record<string, DevSecret> = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, DevSecret>)
    : {};
  const now: Record<string, DevSecret> = {};
  for (const owner of owners) {
    const before = stored[owner];
    now[owner] = before && (await isActive(owner, before.id)) ? before : await make(owner);
  }
  writeJsonAtomically(path, now);
  return Object.fromEntries(Object.entries(now).map(([owner, { value }]) => [owner, value]));
}
