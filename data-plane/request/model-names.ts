/** Decides which model names may appear in records and reports. Names that only a caller has chosen may not. */
import type { Decision } from '../../shared/decision/decide.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';

/** Whether the current state contains a model of this name. If not, the caller may have made the name up. */
export function isModelName(lookup: Pick<Lookup, 'isCatalogued' | 'isPooled'>, model: string): boolean {
  return lookup.isCatalogued(model) || lookup.isPooled(model);
}

/** Name of the requested model, or an empty string if it may be made up. The model of a routed request exists. */
export function keptModel(
  model: string,
  decision: Decision | undefined,
  known: { isKnown(model: string): boolean },
): string {
  const isPlaced = decision !== undefined && 'capacity' in decision.placement;
  return isPlaced || known.isKnown(model) ? model : '';
}
