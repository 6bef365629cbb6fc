/** Effects of events about changes released in waves, on the rows of the open change and of recently closed ones. */

import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import { readEvent, type StoredEvent, toStored } from '../../schemas/events/events.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import { type EventContext, type EventEffects, inverse, rowSource, undo } from './effect.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

/** Event types that a staged change may contain. All other types take effect on all gateways at once. */
export const stagedEventTypes = [
  'tier.set',
  'tier.removed',
  'anonymous.set',
  'anonymous.removed',
  'model.set',
  'model.removed',
  'pool.model_installed',
  'pool.model_uninstalled',
  'stack.model_installed',
  'stack.model_uninstalled',
  'stack.surface_set',
] as const satisfies readonly EventTypeName[];

/** Key of the row of the open change. All open changes would have this key, so at most one change can be open at a time. */
export const openSlot = 'open';

const closedKept = 20;

export function isStagedType(type: string): boolean {
  return stagedEventTypes.some((each) => each === type);
}

/** Converts staged events to this build's form. Returns undefined if it cannot read or must not stage one of them. */
function stagedEvents(events: readonly StoredEvent[]): readonly StoredEvent[] | undefined {
  const known: StoredEvent[] = [];
  for (const stored of events) {
    const read = readEvent(stored);
    if (read.outcome !== 'known' || !isStagedType(read.event.type)) return undefined;
    known.push(toStored(read.event));
  }
  return known;
}

function openChange(tables: TableViews, id: string): RowOf<'change'> | undefined {
  const open = tables.change.get(openSlot);
  return open?.id === id ? open : undefined;
}

function close(
  tables: TableViews,
  open: RowOf<'change'>,
  { atMs, by }: EventContext,
  end: Pick<RowOf<'closed_change'>, 'state' | 'reason'>,
): void {
  const { id, waves, wave, hold_seconds, watch, at, by: author } = open;
  tables.change.remove(open);
  tables.closed_change.put({
    ...{ id, ...end, waves, wave, hold_seconds, watch, at, by: author },
    ...{ closed_at: atMs, closed_by: by },
  });
}

/** Removes the oldest closed changes, of which only a limited number is kept. */
function trimClosed(tables: TableViews): void {
  const closed = (['completed', 'withdrawn'] as const).flatMap((state) =>
    tables.closed_change.where('state', state),
  );
  closed.sort((a, b) => b.closed_at - a.closed_at || (a.id < b.id ? -1 : 1));
  for (const row of closed.slice(closedKept)) tables.closed_change.remove(row);
}

const notOpen = 'no such change is open';

const openId = rowSource('change', ({ id }) => id);

export const changeEffects = {
  'change.staged': {
    fold: (tables, data, { atMs, by }) => {
      if (tables.change.get(openSlot)) return 'another change is open';
      const events = stagedEvents(data.events);
      if (events === undefined) return 'an event of the change cannot be staged';
      const former = tables.closed_change.get(data.change);
      if (former) tables.closed_change.remove(former);
      trimClosed(tables);
      return tables.change.put({
        slot: openSlot,
        id: data.change,
        events: JSON.stringify(events),
        waves: JSON.stringify(data.waves),
        wave: 0,
        wave_at: atMs,
        hold_seconds: data.holdSeconds,
        watch: JSON.stringify(data.watch),
        advance_unseen: data.advanceUnseen ? 1 : 0,
        at: atMs,
        by,
        passed_over: 0,
        passed_over_reason: null,
      });
    },
    inverse: inverse(
      (db) => openId.at(db, openSlot),
      (_was, { change }) => undo('change.withdraw', { id: change }),
    ),
    explains: ['change', 'staged_at'],
  },
  'change.advanced': {
    fold: (tables, { change, wave }, { atMs }) => {
      const open = openChange(tables, change);
      if (!open) return notOpen;
      if (wave <= open.wave || wave > parseColumn(open.waves).length) return 'it is no later wave';
      return tables.change.update(open, { wave, wave_at: atMs });
    },
    inverse: 'a single wave cannot be reversed; withdraw the change',
    explains: ['change', 'advanced_at'],
  },
  'change.withdrawn': {
    fold: (tables, { change, reason }, context) => {
      const open = openChange(tables, change);
      if (!open) return notOpen;
      close(tables, open, context, { state: 'withdrawn', reason });
      return undefined;
    },
    inverse: 'a withdrawn change cannot continue; stage it again',
    explains: ['closed_change'],
  },
  'change.completed': {
    fold: (tables, { change }, context) => {
      const open = openChange(tables, change);
      if (!open) return notOpen;
      close(tables, open, context, { state: 'completed', reason: null });
      return undefined;
    },
    // Nothing to undo, because the change's own events follow in the same commit and each has an inverse.
    inverse: inverse(
      () => null,
      () => undefined,
    ),
    explains: ['closed_change'],
  },
} as const satisfies Partial<EventEffects>;
