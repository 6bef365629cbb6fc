/**
 * The shapes that commands and the fleet file have in common: limits, model selections, nodes, reserved names.
 * Stricter than the events' shapes, because events also carry what earlier writers allowed.
 */
import { z } from 'zod';
import {
  credentialNameSchema,
  dialectSchema,
  idSchema,
  modelIdSchema,
  nodeUrlSchema,
  tierIdSchema,
} from './names.ts';

/** In records the operator goes by this name, so no person may. */
export const operatorName = 'operator';
/** In records these wrote what no person commanded. */
export const checkpointAuthor = 'checkpoint';
/** Author of rows in logs that `snapshot restore` of builds up to 0.2.0 wrote. */
const restoreAuthor = 'restore';
/** A replica as records name it: with a character that no person's id has. */
export const replicaAuthor = (name: string): string => `control-plane:${name}`;
const reservedNames: readonly string[] = [operatorName, checkpointAuthor, restoreAuthor];
/** The visitors' limits stand under this id, so no tier may take it. */
export const anonymousTierName = 'anonymous';

export const personSchema = idSchema.refine(
  (id) => !reservedNames.includes(id),
  `${reservedNames.join(', ')} are reserved names`,
);
export const tierNameSchema = tierIdSchema.refine(
  (id) => id !== anonymousTierName,
  `${anonymousTierName} is a reserved name: visitors have a section of their own`,
);

export const limitSchema = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
export const weightSchema = z.int().min(1).max(1000);
/** `*`: every model of the pool. */
export const modelSelectionSchema = z.union([z.literal('*'), z.array(modelIdSchema).max(10_000)], {
  error: 'must be "*" or a list of model ids',
});

/** Limits left out are unlimited. */
export const limitsShape = {
  requestsPerMinute: limitSchema.optional(),
  concurrency: limitSchema.optional(),
  contextTokens: limitSchema.optional(),
};

/** Limits of visitors: of each, of a network, and of all together; limits left out are unlimited. */
export const visitorsShape = {
  /** Completed answers of a visitor in a month. */
  freeTurns: limitSchema,
  /** A network has so many times the free turns of a visitor each day; 8 where it is left out. */
  networkFactor: z.int().min(1).max(1_000_000).optional(),
  ...limitsShape,
  models: modelSelectionSchema,
  total: z
    .strictObject({
      requestsPerMinute: limitSchema.optional(),
      concurrency: limitSchema.optional(),
      tokensPerDay: limitSchema.optional(),
    })
    .optional(),
};

export const nodeShape = {
  id: idSchema,
  url: nodeUrlSchema,
  dialect: dialectSchema,
  /** Name under which gateways and control planes find the credential in their own environment. */
  credential: credentialNameSchema.optional(),
  /** Catalog id → the name under which the engine serves the model, where the two differ. */
  models: z.record(modelIdSchema, z.string().min(1).max(200)).optional(),
  /** true: an agent reports its health; false or left out: it is probed. */
  agent: z.boolean().optional(),
};

const boundSchema = z.int().min(1).max(1_000_000).optional();
/** What members may do on a fleet; what is left out is as in `boundDefaults`. */
export const boundsShape = {
  /** Of an organisation, neither revoked nor expired. */
  activeKeysPerOrganisation: boundSchema,
  /** Of an organisation, with those that are revoked or expired, which the log keeps. */
  keysPerOrganisation: boundSchema,
  /** That a person gives, on each replica. */
  commandsPerPersonPerMinute: boundSchema,
  /** That the members of an organisation give in it, on each replica. */
  commandsPerOrganisationPerMinute: boundSchema,
};
/** As they hold. */
export const boundsSchema = z.object(boundsShape).required();
export const boundDefaults = {
  activeKeysPerOrganisation: 10_000,
  keysPerOrganisation: 100_000,
  commandsPerPersonPerMinute: 120,
  commandsPerOrganisationPerMinute: 600,
} as const satisfies Bounds;
export type Bounds = Readonly<z.infer<typeof boundsSchema>>;
