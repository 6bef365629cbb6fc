/** Decides which model names records and reports may contain: never text that only a caller has chosen. */
import type { Decision } from '../../shared/decision/decide.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';

/** Whether the current state contains a model of this name. If not, the caller has made the name up. */
export function isModelName(lookup: Pick<Lookup, 'isCatalogued' | 'isPooled'>, model: string): boolean {
  return lookup.isCatalogued(model) || lookup.isPooled(model);
}

/** Name of the requested model, or an empty string if the caller made it up. The model of a routed request exists. */
export function keptModel(
  model: string,
  decision: Decision | undefined,
  known: { isKnown(model: string): boolean },
): string {
  const isPlaced = decision !== undefined && 'capacity' in decision.placement;
  return isPlaced || known.isKnown(model) ? model : '';
}
