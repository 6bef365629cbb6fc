/**
 * The fold: one event becomes changes of rows. Total and pure: it never throws, reads no clock and draws no random,
 * and what it does depends on the rows and the event alone. Bulk replay, live tail and dry-run all call it.
 * A reference to something missing is stored and joined when it is read; an event that contradicts the rows
 * (a second creation of one id, a report of a node's former owner) is skipped, and the reason is returned.
 */
import { eventDefinitions } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { EventContext, EventSkipReason } from './effect.ts';
import { eventEffects } from './effects.ts';
import type { TableViews } from './table.ts';

/** Raised with every change of the tables, or of what the fold makes of events that are there. */
const rowsVersion = 8;

/** A type of event that is new says its own. A snapshot of another version is rebuilt. */
export const foldVersion = Math.max(
  rowsVersion,
  ...Object.values(eventDefinitions).map((definition) => definition.foldVersion),
);

/** Of any type, whose data are those of its event. */
interface Folding {
  fold(tables: TableViews, data: unknown, context: EventContext): EventSkipReason;
}

/** Applies one event. Returns undefined, or why it was skipped. */
export function applyEvent(tables: TableViews, event: KnownEvent, context: EventContext): EventSkipReason {
  const effect: Folding = eventEffects[event.type];
  return effect.fold(tables, event.data, context);
}
