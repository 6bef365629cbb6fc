/**
 * Which commands can turn answers of requests: who gives one is shown first which, on a terminal and in the dialogs of the
 * console. A command that is not in the table does not compile.
 */
import type { CommandName } from './admin.ts';

export const turnsAnswers = {
  // Nobody has a key of it yet.
  'organisation.create': false,
  'organisation.update': true,
  'organisation.delete': true,
  'member.set': false,
  'member.remove': false,
  'tier.set': true,
  'tier.delete': true,
  'anonymous.set': true,
  'bounds.set': false,
  'model.set': true,
  'model.delete': true,
  'key.create': false,
  'key.revoke': true,
  // It has no model yet.
  'stack.create': false,
  'stack.delete': true,
  'stack.set-surface': true,
  'stack.install': true,
  'stack.uninstall': true,
  'pool.install': true,
  'pool.uninstall': true,
  'node.register': true,
  'node.delete': true,
  'node.drain': true,
  'node.undrain': true,
  'node-token.create': false,
  'node-token.revoke': false,
  'token.create': false,
  'signer.add': false,
  'signer.remove': false,
  'usage.adjust': true,
  // What a change in waves does is counted while it does it.
  'change.advance': false,
  'change.withdraw': false,
  'fleet.apply': true,
  'commit.undo': true,
} as const satisfies Readonly<Record<CommandName | 'commit.undo', boolean>>;

type Table = typeof turnsAnswers;
export type TurningName = { [Name in keyof Table]: Table[Name] extends true ? Name : never }[keyof Table];

export function isTurning(name: string): name is TurningName {
  return Object.entries(turnsAnswers).some(([known, turns]) => turns && known === name);
}
