/** Lists the effect of every event type. The compiler rejects a missing type. */
import { isEventType } from '../../schemas/events/event-definitions.ts';
import type { EventEffects } from './effect.ts';
import { capacityEffects } from './effects-capacity.ts';
import { changeEffects } from './effects-changes.ts';
import { tenantEffects } from './effects-tenants.ts';
import type { TableName } from './tables.ts';

/** Effect of an event that does not change any row and is kept only in the log. */
const onlyInTheLog = {
  fold: () => undefined,
  inverse: null,
  explains: [],
} as const;

export const eventEffects: EventEffects = {
  ...tenantEffects,
  ...capacityEffects,
  'log.created': onlyInTheLog,
  // Signers determine which records the log's chain accepts. They are stored with the snapshot's position, not in a table.
  'log.signers_set': onlyInTheLog,
  'session.ended': onlyInTheLog,
  // `snapshot.ts` handles checkpoints, because only it knows the digests with which a checkpoint is compared.
  checkpoint: onlyInTheLog,
  no_op: onlyInTheLog,
  ...changeEffects,
};

/** Whether an event of this type can have set a row of the table, or the given mark column of such a row. */
export function explains(type: string, table: TableName, mark: string | undefined): boolean {
  const [of, ...marks]: readonly string[] = isEventType(type) ? eventEffects[type].explains : [];
  return of === table && (mark === undefined || marks.includes(mark));
}
