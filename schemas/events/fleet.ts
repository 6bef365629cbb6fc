/**
 * Schema of the fleet file, in which an operator declares models, tiers, visitors, the pool and organisations. A missing
 * section or list counts as empty, except that models and tiers of the existing state may then be named. All faults are
 * reported at once with their paths. The file never contains keys.
 */
import { z } from 'zod';
import {
  affinitySchema,
  daySchema,
  hasHidden,
  hiddenText,
  idSchema,
  modelIdSchema,
  momentSchema,
  roleSchema,
  stackIdSchema,
  storedNameSchema,
  surfaceSchema,
} from '../names.ts';
import {
  boundsShape,
  limitSchema,
  limitsShape,
  modelSelectionSchema,
  nodeShape,
  personSchema,
  tierNameSchema,
  visitorsShape,
  weightSchema,
} from '../shapes.ts';
import { releaseSchema } from './changes.ts';

const fleetNodeSchema = z.strictObject(nodeShape);
const installsSchema = z.array(modelIdSchema).max(10_000).optional();
const nodesSchema = z.array(fleetNodeSchema).max(10_000).optional();

const fleetModelSchema = z.strictObject({
  id: modelIdSchema,
  family: storedNameSchema,
  /** Number of concurrency slots that one request takes. Defaults to the current value; for a new model, to 1. */
  weight: weightSchema.optional(),
  /** If left out, an existing model keeps its affinity, and a new model gets `prefix`. */
  affinity: affinitySchema.optional(),
  /** Time at which the model was added. Defaults to the time at which the model was first applied. */
  added: momentSchema.optional(),
});

const fleetTierSchema = z.strictObject({
  id: tierNameSchema,
  ...limitsShape,
  monthlyTokens: limitSchema.optional(),
  models: modelSelectionSchema,
});

const fleetStackSchema = z.strictObject({
  id: stackIdSchema,
  /** If left out, an existing stack keeps its surface, and a new stack gets `openai`. */
  surface: surfaceSchema.optional(),
  models: installsSchema,
  nodes: nodesSchema,
});

const fleetOrganisationSchema = z.strictObject({
  id: idSchema,
  name: storedNameSchema,
  /** Tier of the organisation, or null to forbid inference. Defaults to the current tier; null if the organisation is new. */
  tier: tierNameSchema.nullable().optional(),
  /** First day of a billing period. Defaults to the current value; for a new organisation, to the day it is first applied. */
  anchor: daySchema.optional(),
  members: z
    .array(z.strictObject({ person: personSchema, role: roleSchema }))
    .max(10_000)
    .optional(),
  /** The organisation's own nodes. They serve the organisation's requests on the shared host. */
  nodes: nodesSchema,
  stacks: z.array(fleetStackSchema).max(1000).optional(),
});

/** Kinds of things in a fleet file. Lists of changes use these names. */
export const fleetKinds = [
  ...(['model', 'tier', 'anonymous', 'bounds', 'organisation'] as const),
  ...(['member', 'stack', 'install', 'node'] as const),
] as const;

/** Fleet document, as contained in the fleet file and in admin API requests and responses. */
export const fleetSchema = z
  .strictObject({
    version: z.literal(1),
    models: z.array(fleetModelSchema).max(10_000).optional(),
    /** Tiers in order, lowest first. The last tier is the top tier. */
    tiers: z.array(fleetTierSchema).max(100).optional(),
    anonymous: z.strictObject(visitorsShape).optional(),
    /** Bounds on what members may do. Bounds that are left out take their defaults. */
    bounds: z.strictObject(boundsShape).optional(),
    /** Release settings for `apply --stage`. They are not part of the state. */
    release: releaseSchema.optional(),
    pool: z.strictObject({ models: installsSchema, nodes: nodesSchema }).optional(),
    organisations: z.array(fleetOrganisationSchema).max(10_000).optional(),
  })
  .superRefine(
    (document, context) => {
      for (const fault of crossFaults(document)) {
        context.addIssue({ code: 'custom', path: [...fault.path], message: fault.message });
      }
    },
    // Check names even if some part of the file has a wrong type, so that one run reports all faults.
    { when: () => true },
  );

/** Fleet document as a person may declare it. Unlike in responses, names must not contain invisible characters. */
export const declaredFleetSchema = fleetSchema.superRefine(({ models = [], organisations = [] }, context) => {
  const refuse = (path: (string | number)[], name: string) => {
    if (hasHidden(name)) context.addIssue({ code: 'custom', path, message: hiddenText });
  };
  for (const [index, { family }] of models.entries()) refuse(['models', index, 'family'], family);
  for (const [index, { name }] of organisations.entries()) refuse(['organisations', index, 'name'], name);
});

export type Fleet = z.infer<typeof fleetSchema>;
export type FleetNode = z.infer<typeof fleetNodeSchema>;
export type FleetStack = z.infer<typeof fleetStackSchema>;
export type FleetOrganisation = z.infer<typeof fleetOrganisationSchema>;

/** Text field that accepts any value. A value of a wrong type counts as absent, so list entries keep their positions. */
const text = z.string().optional().catch(undefined);
const anyList = <Item extends z.ZodType>(item: Item) => z.array(item).catch([]);
function lenient<Shape extends z.ZodRawShape>(shape: Shape) {
  const schema = z.object(shape);
  return schema.catch(() => schema.parse({}));
}

const identified = lenient({ id: text });
const plan = lenient({ id: text, models: anyList(text) });
const place = lenient({ id: text, models: anyList(text), nodes: anyList(identified) });
/** Parts of a fleet document that are needed to check names across its sections. */
const skeletonSchema = lenient({
  // If the list is absent, names are not checked against it, because they may exist in the state.
  models: z.array(identified).optional().catch(undefined),
  tiers: z.array(plan).optional().catch(undefined),
  anonymous: plan,
  pool: place,
  organisations: anyList(
    lenient({
      id: text,
      tier: text,
      members: anyList(lenient({ person: text })),
      nodes: anyList(identified),
      stacks: anyList(place),
    }),
  ),
});
type Skeleton = z.infer<typeof skeletonSchema>;

interface FleetItem {
  readonly id?: string | undefined;
}
type Path = readonly (string | number)[];
interface FleetFault {
  readonly path: Path;
  readonly message: string;
}
interface LocatedItem extends FleetItem {
  readonly path: Path;
}

function crossFaults(document: unknown): FleetFault[] {
  const fleet = skeletonSchema.parse(document);
  return [...duplicates(fleet), ...unknownModels(fleet), ...unknownTiers(fleet)];
}

function withIdPaths(items: readonly FleetItem[], path: Path): LocatedItem[] {
  return items.map(({ id }, index) => ({ path: [...path, index, 'id'], id }));
}
function withPaths(items: readonly (string | undefined)[], path: Path): LocatedItem[] {
  return items.map((id, index) => ({ path: [...path, index], id }));
}

/** Returns all lists whose ids must be unique. Node ids must be unique across all places, and so must stack ids. */
function uniqueLists(fleet: Skeleton): [kind: string, ids: LocatedItem[]][] {
  const stacks: LocatedItem[] = [];
  const placed = withIdPaths(fleet.pool.nodes, ['pool', 'nodes']);
  const lists: [string, LocatedItem[]][] = [
    ['model', withIdPaths(fleet.models ?? [], ['models'])],
    ['tier', withIdPaths(fleet.tiers ?? [], ['tiers'])],
    ['organisation', withIdPaths(fleet.organisations, ['organisations'])],
    ['stack', stacks],
    ['node', placed],
  ];
  for (const [index, { members: people, nodes: own, stacks: theirs }] of fleet.organisations.entries()) {
    const path = ['organisations', index];
    const members = people.map(({ person: id }, at) => ({ path: [...path, 'members', at, 'person'], id }));
    lists.push(['member', members]);
    placed.push(...withIdPaths(own, [...path, 'nodes']));
    stacks.push(...withIdPaths(theirs, [...path, 'stacks']));
    for (const [at, { nodes: inside }] of theirs.entries()) {
      placed.push(...withIdPaths(inside, [...path, 'stacks', at, 'nodes']));
    }
  }
  for (const { path, ids } of modelLists(fleet)) lists.push(['model', withPaths(ids, path)]);
  return lists;
}

function duplicates(fleet: Skeleton): FleetFault[] {
  return uniqueLists(fleet).flatMap(([kind, ids]) => {
    const first = new Map<string, Path>();
    return ids.flatMap(({ id, path }) => {
      if (id === undefined) return [];
      const before = first.get(id);
      if (before) return [{ path, message: `the ${kind} ${id} is already at ${pathText(before)}` }];
      first.set(id, path);
      return [];
    });
  });
}

/** Returns all lists that name models of the catalog. */
function modelLists(fleet: Skeleton): { path: Path; ids: (string | undefined)[] }[] {
  return [
    ...(fleet.tiers ?? []).map(({ models }, index) => ({ path: ['tiers', index, 'models'], ids: models })),
    { path: ['anonymous', 'models'], ids: fleet.anonymous.models },
    { path: ['pool', 'models'], ids: fleet.pool.models },
    ...fleet.organisations.flatMap(({ stacks }, index) =>
      stacks.map(({ models }, at) => ({
        path: ['organisations', index, 'stacks', at, 'models'],
        ids: models,
      })),
    ),
  ];
}

function unknownModels(fleet: Skeleton): FleetFault[] {
  if (!fleet.models) return [];
  const catalog = new Set(fleet.models.map(({ id }) => id));
  return modelLists(fleet).flatMap(({ path, ids }) =>
    withPaths(ids, path)
      .filter(({ id }) => id !== undefined && !catalog.has(id))
      .map(({ id, path: at }) => ({ path: at, message: `the model ${id} is not in models` })),
  );
}

function unknownTiers(fleet: Skeleton): FleetFault[] {
  if (!fleet.tiers) return [];
  const tiers = new Set(fleet.tiers.map(({ id }) => id));
  return fleet.organisations.flatMap(({ tier }, index) =>
    tier === undefined || tiers.has(tier)
      ? []
      : [{ path: ['organisations', index, 'tier'], message: `the tier ${tier} is not in tiers` }],
  );
}

/** Formats a path for messages, such as `organisations[0].nodes[1].id`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '');
}
