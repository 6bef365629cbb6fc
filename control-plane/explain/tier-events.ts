/** The event that sets a tier to what it is, with a change. */
import type { EventData } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findAnonymous, findTier } from '../state/catalog.ts';

type TierEvent =
  | { readonly type: 'tier.set'; readonly data: EventData<'tier.set'> }
  | { readonly type: 'anonymous.set'; readonly data: EventData<'anonymous.set'> };

/** `changed`: limits that are others, or none any more; `model`: one more that it includes. */
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
