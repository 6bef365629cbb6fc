/**
 * The fold: one event becomes changes of rows. Total and pure: it never throws, reads no clock and draws no random,
 * and what it does depends on the rows and the event alone. Bulk replay, live tail and dry-run all call it.
 * A reference to something missing is stored and joined when it is read; an event that contradicts the rows
 * (a second creation of one id, a report of a node's former owner) is skipped, and the reason is returned.
 */
import type { KnownEvent } from '../../schemas/events.ts';
import { capacityHandlers } from './fold-capacity.ts';
import { tenantHandlers } from './fold-tenants.ts';
import type { EventContext, EventSkipReason, Handlers } from './fold-types.ts';
import type { TableViews } from './table.ts';

/** Raised with every change of what the fold makes of any event; a snapshot of another version is rebuilt. */
export const foldVersion = 7;

const handlers: Handlers = {
  ...tenantHandlers,
  ...capacityHandlers,
  'log.created': () => undefined,
  // Part of the accept rule: the signers are stored in the position, not in a table.
  'log.signers_set': () => undefined,
  'session.ended': () => undefined,
  no_op: () => undefined,
  // Compared by the snapshot, which holds the digests.
  checkpoint: () => undefined,
};

/** Applies one event. Returns undefined, or why it was skipped. */
export function applyEvent(tables: TableViews, event: KnownEvent, context: EventContext): EventSkipReason {
  const handler = handlers[event.type] as (
    tables: TableViews,
    data: unknown,
    context: EventContext,
  ) => EventSkipReason;
  return handler(tables, event.data, context);
}
