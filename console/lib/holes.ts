/** Finds installed models that no node has loaded, and the organisations whose requests are refused for that reason. */
import type { LiveNodeResource, Organisation, Pool, Stack, Tier } from '../../schemas/admin/admin.ts';

export interface FleetReads {
  readonly pool: Pool;
  readonly stacks: readonly Stack[];
  readonly nodes: readonly LiveNodeResource[];
  readonly tiers: readonly Tier[];
  /** Organisations, or only the first page of them if there are many. */
  readonly organisations: readonly Organisation[];
  readonly organisationsInAll: number;
}

export interface UnservedInstall {
  readonly model: string;
  /** HTTP status of the response to requests for the model: 503 on the pool, and 404 on a stack. */
  readonly status: 404 | 503;
  /** Place where the model is installed: `the pool`, or the id of a stack. */
  readonly where: string;
  /** Organisations whose requests for the model are refused. */
  readonly refused: readonly Pick<Organisation, 'id' | 'name'>[];
}

export function serves({ up, drained }: LiveNodeResource): boolean {
  return up && !drained;
}

function isServed(model: string, nodes: readonly LiveNodeResource[]): boolean {
  return nodes.some((node) => serves(node) && node.loaded.includes(node.models?.[model] ?? model));
}

/** Groups nodes by place. This is done once in advance, because a fleet may have thousands of stacks. */
export function nodesByPlace(nodes: readonly LiveNodeResource[]): Map<string, LiveNodeResource[]> {
  const byPlace = new Map<string, LiveNodeResource[]>();
  for (const node of nodes) {
    const place = placeKey(node.place);
    const known = byPlace.get(place);
    if (known === undefined) byPlace.set(place, [node]);
    else known.push(node);
  }
  return byPlace;
}

export function placeKey(place: LiveNodeResource['place']): string {
  return place.kind === 'pool' ? 'pool' : `${place.kind} ${place.id}`;
}

export function holes({ pool, stacks, nodes, tiers, organisations }: FleetReads): UnservedInstall[] {
  const byPlace = nodesByPlace(nodes);
  const tierOf = new Map(tiers.map((tier) => [tier.id, tier]));
  const nameOf = new Map(organisations.map(({ id, name }) => [id, name]));
  const includes = (organisation: Organisation, model: string): boolean => {
    const models = organisation.tier === null ? [] : (tierOf.get(organisation.tier)?.models ?? []);
    return models === '*' || models.includes(model);
  };
  const ofPool = byPlace.get('pool') ?? [];
  const inPool = pool.models
    .filter((model) => !isServed(model, ofPool))
    .map((model) => ({
      model,
      status: 503 as const,
      where: 'the pool',
      refused: organisations.filter(
        (organisation) => !organisation.suspended && includes(organisation, model),
      ),
    }));
  const inStacks = stacks.flatMap(({ id, organisation, models }) => {
    const own = byPlace.get(placeKey({ kind: 'stack', id })) ?? [];
    return models
      .filter((model) => !isServed(model, own))
      .map((model) => ({
        model,
        status: 404 as const,
        where: id,
        refused: [{ id: organisation, name: nameOf.get(organisation) ?? organisation }],
      }));
  });
  return [...inPool, ...inStacks];
}
