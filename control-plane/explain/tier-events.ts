/** Builds the event that sets a tier to its present values with one modification. */
import type { EventData } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findAnonymous, findTier } from '../state/catalog.ts';

type TierEvent =
  | { readonly type: 'tier.set'; readonly data: EventData<'tier.set'> }
  | { readonly type: 'anonymous.set'; readonly data: EventData<'anonymous.set'> };

/** Event for the tier. `changed` contains limits with new values, or undefined for no limit. `model` is a model to add. */
export function exactTierEvent(
  db: Database,
  id: string,
  changed: object,
  model: string | undefined,
): TierEvent | undefined {
  const withModel = (models: '*' | readonly string[]): '*' | string[] =>
    models === '*' ? '*' : [...models, ...(model === undefined ? [] : [model])];
  if (id === 'anonymous') {
    const found = findAnonymous(db);
    return (
      found && { type: 'anonymous.set', data: { ...found, ...changed, models: withModel(found.models) } }
    );
  }
  const found = findTier(db, id);
  return found && { type: 'tier.set', data: { ...found, ...changed, models: withModel(found.models) } };
}
