/**
 * The fold turns one event into row changes. It never throws, never reads a clock and never draws random numbers, so its
 * result depends only on the rows and the event. References are checked only when rows are read, so they may dangle. An event
 * that contradicts the rows, such as an id created twice or a report from a node's former owner, is skipped with a reason.
 */
import { eventDefinitions } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { EventContext, EventSkipReason } from './effect.ts';
import { eventEffects } from './effects.ts';
import type { TableViews } from './table.ts';

/** Increase this after every change to the tables or to the way existing event types are folded. */
const rowsVersion = 8;

/** Version of the fold, which each new event type increases. A snapshot with another version is rebuilt. */
export const foldVersion = Math.max(
  rowsVersion,
  ...Object.values(eventDefinitions).map((definition) => definition.foldVersion),
);

/** Fold function for an event of any type. `data` must have that type's format. */
interface AnyFold {
  fold(tables: TableViews, data: unknown, context: EventContext): EventSkipReason;
}

/** Applies one event to the tables. Returns undefined, or the reason why the event was skipped. */
export function applyEvent(tables: TableViews, event: KnownEvent, context: EventContext): EventSkipReason {
  const effect: AnyFold = eventEffects[event.type];
  return effect.fold(tables, event.data, context);
}
