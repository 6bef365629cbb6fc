/** Decides commands on staged changes: start the next wave, or withdraw the change. */
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import { parseEvents } from '../../shared/snapshot/overlay.ts';
import { CommandError } from '../core/command-error.ts';
import { findChange, findOpenChange, type OpenChange } from '../state/changes.ts';
import { defineCommands } from './definition.ts';

function needOpen(db: Database, id: string): OpenChange {
  const open = findOpenChange(db);
  if (open?.id === id) return open;
  const over = findChange(db, id);
  if (over) throw new CommandError('Conflict', `the change ${id} is ${over.state}`);
  throw new CommandError('NotFound', `there is no change ${id}`, { next: 'headgate change list' });
}

/** Returns the events that start the next wave or, after the last one, complete the change and append its own events. */
export function advancing(open: OpenChange): KnownEvent[] {
  const { id: change, wave } = open;
  if (wave < parseColumn(open.waves).length)
    return [{ type: 'change.advanced', data: { change, wave: wave + 1 } }];
  return [{ type: 'change.completed', data: { change } }, ...parseEvents(open)];
}

export const changeCommands = defineCommands({
  'change.advance': {
    decide: (db, { params: { id }, body: { inWave } }) => {
      const open = needOpen(db, id);
      if (inWave !== undefined && inWave !== open.wave)
        throw new CommandError(
          'Conflict',
          `the change ${id} is in wave ${open.wave}, not in wave ${inWave}`,
          {
            next: `headgate change show ${id}`,
          },
        );
      if (open.passed_over_reason !== null)
        throw new CommandError('Conflict', `the change ${id} cannot continue: ${open.passed_over_reason}`, {
          next: `headgate change withdraw ${id}`,
        });
      return { events: advancing(open) };
    },
    show: (db, { params: { id } }) => findChange(db, id) ?? { id },
  },
  'change.withdraw': {
    decide: (db, { params: { id }, body: { reason = 'by hand' } }) => {
      needOpen(db, id);
      return { events: [{ type: 'change.withdrawn', data: { change: id, reason } }] };
    },
    show: (db, { params: { id } }) => findChange(db, id) ?? { id },
  },
});
