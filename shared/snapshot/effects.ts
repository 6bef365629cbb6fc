/** What each type of event does to the state. What is forgotten does not compile. */
import { isEventType } from '../../schemas/events/event-definitions.ts';
import type { EventEffects } from './effect.ts';
import { capacityEffects } from './effects-capacity.ts';
import { changeEffects } from './effects-changes.ts';
import { tenantEffects } from './effects-tenants.ts';
import type { TableName } from './tables.ts';

/** An event that is no row of the state. */
const onlyInTheLog = {
  fold: () => undefined,
  inverse: null,
  explains: [],
} as const;

export const eventEffects: EventEffects = {
  ...tenantEffects,
  ...capacityEffects,
  'log.created': onlyInTheLog,
  // Part of the accept rule: the signers are stored in the position, not in a table.
  'log.signers_set': onlyInTheLog,
  'session.ended': onlyInTheLog,
  // Compared by the snapshot, which holds the digests.
  checkpoint: onlyInTheLog,
  no_op: onlyInTheLog,
  ...changeEffects,
};

/** Whether an event of this type may have made a row of the table, or this aspect of it, what it is. */
export function explains(type: string, table: TableName, mark: string | undefined): boolean {
  const [of, ...marks]: readonly string[] = isEventType(type) ? eventEffects[type].explains : [];
  return of === table && (mark === undefined || marks.includes(mark));
}
