/**
 * The fold: turns one event into row changes. It is total and pure: it never throws, never reads a clock, never draws random
 * numbers, and depends only on the rows and the event. References may dangle until they are read. An event that contradicts
 * the rows (an ID created twice, a report from a node's former owner) is skipped, with the reason.
 */
import { eventDefinitions } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { EventContext, EventSkipReason } from './effect.ts';
import { eventEffects } from './effects.ts';
import type { TableViews } from './table.ts';

/** Increase this after every change to the tables, or to how existing event types are folded. */
const rowsVersion = 8;

/** Version of the fold. A new event type brings its own version. Snapshots with another version are rebuilt. */
export const foldVersion = Math.max(
  rowsVersion,
  ...Object.values(eventDefinitions).map((definition) => definition.foldVersion),
);

/** A fold for any event type; `data` must be that type's data. */
interface AnyFold {
  fold(tables: TableViews, data: unknown, context: EventContext): EventSkipReason;
}

/** Applies one event. Returns undefined, or the reason for skipping it. */
export function applyEvent(tables: TableViews, event: KnownEvent, context: EventContext): EventSkipReason {
  const effect: AnyFold = eventEffects[event.type];
  return effect.fold(tables, event.data, context);
}
