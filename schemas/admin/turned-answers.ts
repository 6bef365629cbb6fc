/**
 * Names of the commands that can change the outcome of requests. Before they run such a command, the command line and the
 * console show which requests it would affect. The list omits commands that concern only the log, staged changes, or things
 * that no key or model uses yet.
 */
import type { CommandName } from './admin.ts';

export const turningNames = [
  'organisation.update',
  'organisation.delete',
  'tier.set',
  'tier.delete',
  'anonymous.set',
  'model.set',
  'model.delete',
  'key.revoke',
  'usage.adjust',
  'fleet.apply',
  'commit.undo',
  'stack.delete',
  'stack.set-surface',
  'stack.install',
  'stack.uninstall',
  'pool.install',
  'pool.uninstall',
  'node.register',
  'node.delete',
  'node.drain',
  'node.undrain',
] as const satisfies readonly (CommandName | 'commit.undo')[];

export type TurningName = (typeof turningNames)[number];

export function isTurning(name: string): name is TurningName {
  return turningNames.some((known) => known === name);
}
