/** Which model names records and reports may contain: never a text that only its caller chose. */
import type { Decision } from '../../shared/decision/decide.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';

/** Is it a name that the state has? Any other text is the caller's own. */
export function isModelName(lookup: Pick<Lookup, 'isCatalogued' | 'isPooled'>, model: string): boolean {
  return lookup.isCatalogued(model) || lookup.isPooled(model);
}

/** The model of a request as records and reports may keep it; empty for a text of its caller. What was placed, the state has. */
export function keptModel(
  model: string,
  decision: Decision | undefined,
  known: { isKnown(model: string): boolean },
): string {
  const isPlaced = decision !== undefined && 'capacity' in decision.placement;
  return isPlaced || known.isKnown(model) ? model : '';
}
