/** Turns the events of a command into a staged change, and refuses commands that conflict with the open change. */
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import type { ReleasePlan } from '../../schemas/events/release.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { first } from '../../shared/runtime/statements.ts';
import { isStagedType } from '../../shared/snapshot/effects-changes.ts';
import { foldOver, openTables, parseEvents, rowsWritten } from '../../shared/snapshot/overlay.ts';
import { CommandError } from '../core/command-error.ts';
import { findChange, findOpenChange, type OpenChange } from '../state/changes.ts';
import type { Actor } from './authorise.ts';

export interface Staging extends ReleasePlan {
  readonly advanceUnseen: boolean;
}

/** Wraps the events in a staged change and starts its first wave. Throws `CommandError` if they cannot be staged. */
export function stagedEvents(
  db: Database,
  events: readonly KnownEvent[],
  { waves, holdSeconds, watch, advanceUnseen }: Staging,
  actor: Actor,
): KnownEvent[] {
  if (actor.person !== undefined)
    throw new CommandError('Forbidden', 'only operators may stage a change of the fleet');
  const open = findOpenChange(db);
  if (open) throw alreadyOpen(open);
  const immediate = events.find(({ type }) => !isStagedType(type));
  if (immediate)
    throw new CommandError(
      'InvalidCommand',
      `${immediate.type} cannot be staged, because it takes effect everywhere at once`,
      {
        next: 'send this part without --stage, and stage the definitions of models, plans, pool and stacks separately',
      },
    );
  const [reason] = foldOver(openTables(db), events).passedOver;
  if (reason !== undefined) throw new CommandError('Conflict', `the change cannot be made: ${reason}`);
  const change = newId(db);
  return [
    {
      type: 'change.staged',
      data: {
        ...{ change, events: events.map(toStored), waves: [...waves], holdSeconds, watch },
        ...(advanceUnseen && { advanceUnseen }),
      },
    },
    { type: 'change.advanced', data: { change, wave: 1 } },
  ];
}

function alreadyOpen({ id }: OpenChange): CommandError {
  return new CommandError('Conflict', `the change ${id} is open, and only one may be open at a time`, {
    next: `headgate change show ${id} shows it; wait for it, or headgate change withdraw ${id}`,
  });
}

/** Returns a new change's id: its commit's position, with a suffix if a restored log already has a change with that id. */
function newId(db: Database): string {
  const { seq } = first<{ seq: number }>(db, 'SELECT seq FROM position') ?? { seq: 0 };
  const id = String(seq + 1);
  return findChange(db, id) === undefined ? id : `${id}-2`;
}

/** Throws `CommandError` if the events write a row that the open change would overwrite when it completes. */
export function checkOpenChange(db: Database, events: readonly KnownEvent[]): void {
  const open = findOpenChange(db);
  if (open === undefined || events.length === 0) return;
  if (events.some(({ type }) => type.startsWith('change.'))) return;
  const tables = openTables(db);
  const written = rowsWritten(foldOver(tables, events).tables);
  const staged = rowsWritten(foldOver(tables, parseEvents(open)).tables);
  const both = [...written].find((row) => staged.has(row));
  if (both === undefined) return;
  throw new CommandError('Conflict', `the change ${open.id} also writes ${both.replace('_', ' ')}`, {
    next: `wait until it is over (headgate change show ${open.id}), or headgate change withdraw ${open.id}`,
  });
}
