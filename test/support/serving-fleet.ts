/** Random fleets that serve requests, for tests of how state changes affect answers. */
import { eventTypeNames } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { known } from './commits.ts';
import type { Random } from './random.ts';

export const organisations = ['org-1', 'org-2', 'org-3', 'org-4', 'org-5'];
export const stacks = ['stk-amber-otter-1', 'stk-blue-finch-2', 'stk-calm-heron-3'];
export const models = ['echo-small', 'echo-large', 'family/model:1b', 'embed-1'];
const tiers = ['Starter', 'Team', 'Platinum'];

/**
 * Returns the history of a fleet that serves requests, so that a change can alter answers. The history uses few names, so
 * that many organisations and stacks differ in only one respect.
 */
export function servingFleet(random: Random): KnownEvent[][] {
  const oneOf = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value;
  const some = (values: readonly string[]): string[] =>
    oneOf([values, values.slice(0, 2), values.slice(1, 3), values.slice(0, 1)]) as string[];
  const places = [
    ...[1, 2].map(() => ({ kind: 'pool' as const })),
    ...stacks.map((id) => ({ kind: 'stack' as const, id })),
    ...organisations.slice(0, 3).map((id) => ({ kind: 'organisation' as const, id })),
  ];
  const nodes = places.map((place, at) => ({ id: `node-${at + 1}`, place, models: some(models) }));
  return [
    [
      ...models.map((id) =>
        known('model.set', { id, family: 'f', added: '2026-01-01T00:00:00.000Z', weight: 1 }),
      ),
      ...tiers.map((id, at) =>
        known('tier.set', { id, rank: at + 1, models: random() < 0.3 ? '*' : some(models) }),
      ),
      known('anonymous.set', { models: some(models), freeTurns: 10 }),
      ...organisations.map((id) =>
        known('organisation.set', { id, name: id, tier: oneOf(tiers.slice(0, 2)), anchor: '2026-01-01' }),
      ),
      ...some(models).map((model) => known('pool.model_installed', { model })),
      ...stacks.map((id) =>
        known('stack.created', {
          id,
          organisation: oneOf(organisations.slice(0, 2)),
          surface: oneOf(['openai', 'anthropic'] as const),
        }),
      ),
      ...stacks.flatMap((stack) =>
        some(models).map((model) => known('stack.model_installed', { stack, model })),
      ),
    ],
    nodes.flatMap(({ id, place, models: loaded }) => [
      known('node.registered', { id, place, url: `http://127.0.0.1/${id}`, dialect: 'vllm', agent: false }),
      known('node.joined', { id, owner: 'control-1', generation: 1 }),
      known('node.health_changed', {
        ...{ id, owner: 'control-1', generation: 1, up: random() < 0.8, models: loaded },
        rerankModels: random() < 0.3 ? loaded.slice(0, 1) : [],
      }),
    ]),
  ];
}

/** Types of events that may alter an answer of a random fleet. */
export const changingTypes = eventTypeNames.filter((type) =>
  /^(tier|anonymous|organisation|model|pool|stack|node)\./.test(type),
);
