/** Decides which model names records and reports may contain: never a text that only the caller chose. */
import type { Decision } from '../../shared/decision/decide.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';

/** Whether the state contains this model name. Any other text was made up by the caller. */
export function isModelName(lookup: Pick<Lookup, 'isCatalogued' | 'isPooled'>, model: string): boolean {
  return lookup.isCatalogued(model) || lookup.isPooled(model);
}

/** Model name that may be stored; empty for a text that the caller made up. A placed request's model is in the state. */
export function keptModel(
  model: string,
  decision: Decision | undefined,
  known: { isKnown(model: string): boolean },
): string {
  const isPlaced = decision !== undefined && 'capacity' in decision.placement;
  return isPlaced || known.isKnown(model) ? model : '';
}
