/**
 * Commands that can turn answers of requests: who gives one is shown first which, on a terminal and in the dialogs of the
 * console. Those of the log alone do not, nor what nobody has a key or a model of yet, nor a change in waves, which is counted
 * while it is made.
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
