/**
 * Finds models that weigh more than a tier's concurrency. A request for such a model takes the whole concurrency, so it runs
 * only when nothing else is in flight. That is allowed but rarely intended, so it causes a warning.
 */
import { anonymousTierName } from '../shapes.ts';

export interface Overweight {
  readonly tier: string;
  readonly model: string;
  readonly weight: number;
  readonly concurrency: number;
}

interface Plan {
  readonly concurrency?: number | undefined;
  readonly models: '*' | readonly string[];
}

/** Tiers and models to compare, which come from a fleet file or from the state. */
export interface PlansAndModels {
  readonly models?: readonly { readonly id: string; readonly weight?: number | undefined }[] | undefined;
  readonly tiers?: readonly (Plan & { readonly id: string })[] | undefined;
  readonly anonymous?:
    | (Plan & { readonly total?: { readonly concurrency?: number | undefined } | undefined })
    | undefined;
}

export function overweightPairs({ models = [], tiers = [], anonymous }: PlansAndModels): Overweight[] {
  const heavy = models.flatMap(({ id, weight = 1 }) => (weight > 1 ? [{ model: id, weight }] : []));
  const visitors = anonymous && {
    ...{ id: anonymousTierName, models: anonymous.models },
    concurrency: least(anonymous.concurrency, anonymous.total?.concurrency),
  };
  return [...tiers, ...(visitors ? [visitors] : [])].flatMap((tier) => {
    const { concurrency = 0 } = tier;
    // A tier with a concurrency of 0 serves no requests, whatever a model weighs, so it needs no warning.
    if (concurrency < 1) return [];
    return heavy
      .filter(
        ({ model, weight }) => weight > concurrency && (tier.models === '*' || tier.models.includes(model)),
      )
      .map((pair) => ({ tier: tier.id, ...pair, concurrency }));
  });
}

function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

export function overweightText({ tier, model, weight, concurrency }: Overweight): string {
  return `a request for ${model} counts as ${weight}, but the tier ${tier} allows ${concurrency} in flight, so it is served only if its caller has no other request in flight`;
}

export function overweightNext({ tier, model, weight, concurrency }: Overweight): string {
  return `headgate tier set ${tier} --concurrency ${weight}, or headgate model set ${model} --weight ${concurrency}`;
}

const warningsMax = 20;

/** Returns one warning per pair of tier and model. After twenty, one more states only the number of remaining pairs. */
export function overweightWarnings(pairs: readonly Overweight[]): string[] {
  const texts = pairs
    .slice(0, warningsMax)
    .map((pair) => `${overweightText(pair)} (${overweightNext(pair)})`);
  return pairs.length > warningsMax
    ? [...texts, `${pairs.length - warningsMax} more pairs of this kind`]
    : texts;
}
