/** Lists the organisations that have dedicated capacity, with the number of their models that no node serves. */
import type { LiveNodeResource, Organisation, Stack } from '../../schemas/admin/admin.ts';
import { type FleetReads, placeKey, type UnservedInstall } from './holes.ts';

interface StackNodes {
  readonly id: string;
  readonly nodes: readonly LiveNodeResource[];
}

export interface OwnCapacity {
  readonly id: string;
  readonly name: string;
  readonly tier: string | null;
  readonly stacks: readonly StackNodes[];
  readonly nodes: readonly LiveNodeResource[];
  /** Number of models in the organisation's stacks that no node serves. */
  readonly missing: number;
}

interface Sources extends Pick<FleetReads, 'stacks' | 'organisations'> {
  readonly places: ReadonlyMap<string, readonly LiveNodeResource[]>;
  readonly missing: readonly UnservedInstall[];
}

/** Returns the organisations with dedicated capacity, ordered by id. */
export function capacities({ stacks, organisations, places, missing }: Sources): readonly OwnCapacity[] {
  const known = new Map<string, Organisation>(organisations.map((one) => [one.id, one]));
  const holesOf = new Map<string, number>();
  for (const { where, refused } of missing)
    for (const { id } of where === 'the pool' ? [] : refused) holesOf.set(id, (holesOf.get(id) ?? 0) + 1);
  const stacksOf = new Map<string, Stack[]>();
  for (const stack of stacks) {
    const own = stacksOf.get(stack.organisation);
    if (own === undefined) stacksOf.set(stack.organisation, [stack]);
    else own.push(stack);
  }
  for (const place of places.keys()) {
    const [kind, id = ''] = place.split(' ');
    if (kind === 'organisation' && !stacksOf.has(id)) stacksOf.set(id, []);
  }
  return [...stacksOf]
    .map(([id, own]) => ({
      ...{ id, name: known.get(id)?.name ?? id, tier: known.get(id)?.tier ?? null },
      stacks: own.map((stack) => ({
        id: stack.id,
        nodes: places.get(placeKey({ kind: 'stack', id: stack.id })) ?? [],
      })),
      nodes: places.get(placeKey({ kind: 'organisation', id })) ?? [],
      missing: holesOf.get(id) ?? 0,
    }))
    .sort((one, other) => (one.id < other.id ? -1 : 1));
}
