/** What is installed and loaded nowhere, and which organisations are refused for it. */
import type { LiveNodeResource, Organisation, Pool, Stack, Tier } from '../../schemas/admin.ts';

export interface FleetReads {
  readonly pool: Pool;
  readonly stacks: readonly Stack[];
  readonly nodes: readonly LiveNodeResource[];
  readonly tiers: readonly Tier[];
  readonly organisations: readonly Organisation[];
}

export interface Hole {
  readonly model: string;
  /** `the pool`, or the id of a stack. */
  readonly where: string;
  /** The organisations whose requests for it are refused with 503. */
  readonly refused: readonly Pick<Organisation, 'id' | 'name'>[];
}

function isServed(model: string, nodes: readonly LiveNodeResource[]): boolean {
  return nodes.some(
    ({ up, drained, loaded, models }) => up && !drained && loaded.includes(models?.[model] ?? model),
  );
}

export function holes({ pool, stacks, nodes, tiers, organisations }: FleetReads): Hole[] {
  const tierOf = new Map(tiers.map((tier) => [tier.id, tier]));
  const nameOf = new Map(organisations.map(({ id, name }) => [id, name]));
  const includes = (organisation: Organisation, model: string): boolean => {
    const models = organisation.tier === null ? [] : (tierOf.get(organisation.tier)?.models ?? []);
    return models === '*' || models.includes(model);
  };
  const ofPool = nodes.filter(({ place }) => place.kind === 'pool');
  const inPool = pool.models
    .filter((model) => !isServed(model, ofPool))
    .map((model) => ({
      model,
      where: 'the pool',
      refused: organisations.filter(
        (organisation) => !organisation.suspended && includes(organisation, model),
      ),
    }));
  const inStacks = stacks.flatMap(({ id, organisation, models }) => {
    const own = nodes.filter(({ place }) => place.kind === 'stack' && place.id === id);
    return models
      .filter((model) => !isServed(model, own))
      .map((model) => ({
        model,
        where: id,
        refused: [{ id: organisation, name: nameOf.get(organisation) ?? organisation }],
      }));
  });
  return [...inPool, ...inStacks];
}
