/** Effects of every event type. A missing type is a compile error. */
import { isEventType } from '../../schemas/events/event-definitions.ts';
import type { EventEffects } from './effect.ts';
import { capacityEffects } from './effects-capacity.ts';
import { changeEffects } from './effects-changes.ts';
import { tenantEffects } from './effects-tenants.ts';
import type { TableName } from './tables.ts';

/** Effect of an event that does not change any row. */
const onlyInTheLog = {
  fold: () => undefined,
  inverse: null,
  explains: [],
} as const;

export const eventEffects: EventEffects = {
  ...tenantEffects,
  ...capacityEffects,
  'log.created': onlyInTheLog,
  // Signers are part of the chain's accept rule. They are stored with the position, not in a table.
  'log.signers_set': onlyInTheLog,
  'session.ended': onlyInTheLog,
  // Compared in snapshot.ts, which has the digests.
  checkpoint: onlyInTheLog,
  no_op: onlyInTheLog,
  ...changeEffects,
};

/** Whether an event of this type can have set a row of the table or, if given, the mark. */
export function explains(type: string, table: TableName, mark: string | undefined): boolean {
  const [of, ...marks]: readonly string[] = isEventType(type) ? eventEffects[type].explains : [];
  return of === table && (mark === undefined || marks.includes(mark));
}
