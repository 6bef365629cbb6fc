/** Fields that commands and the fleet file share. Fields of events are laxer, because old events contain other values. */
import { z } from 'zod';
import {
  credentialNameSchema,
  dialectSchema,
  idSchema,
  modelIdSchema,
  nodeUrlSchema,
  tierIdSchema,
} from './names.ts';

/** Author of the operator's records. Persons must not use this name. */
export const operatorName = 'operator';
/** Author of checkpoints, which no person commands. */
export const checkpointAuthor = 'checkpoint';
/** Author of rows in logs that `snapshot restore` of builds up to 0.2.0 wrote. */
const restoreAuthor = 'restore';
/** Author name of a replica's records. Its colon cannot occur in a person's id. */
export const replicaAuthor = (name: string): string => `control-plane:${name}`;
const reservedNames: readonly string[] = [operatorName, checkpointAuthor, restoreAuthor];
/** Tier id under which the visitors' limits are stored. Tiers must not use it. */
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
/** `*` selects every model of the pool. */
export const modelSelectionSchema = z.union([z.literal('*'), z.array(modelIdSchema).max(10_000)], {
  error: 'must be "*" or a list of model ids',
});

/** Limits. A limit that is left out does not apply. */
export const limitsShape = {
  requestsPerMinute: limitSchema.optional(),
  concurrency: limitSchema.optional(),
  contextTokens: limitSchema.optional(),
};

/** Limits of each visitor, of each network, and of all visitors together. A limit that is left out does not apply. */
export const visitorsShape = {
  /** Completed answers that a visitor gets per month. */
  freeTurns: limitSchema,
  /** Multiple of a visitor's free turns that one network gets per day. Defaults to 8. */
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
  /** Name by which gateways and control planes look up the node's credential in their own environment. */
  credential: credentialNameSchema.optional(),
  /** Catalog ids mapped to the engine's names, for models whose names differ. */
  models: z.record(modelIdSchema, z.string().min(1).max(200)).optional(),
  /** If true, an agent reports the node's health. Otherwise the node is probed. */
  agent: z.boolean().optional(),
};

const boundSchema = z.int().min(1).max(1_000_000).optional();
/** Bounds on what a fleet's members may do. `boundDefaults` supplies the values that are left out. */
export const boundsShape = {
  /** Most keys of an organisation that are neither revoked nor expired. */
  activeKeysPerOrganisation: boundSchema,
  /** Most keys of an organisation, including revoked and expired ones, because the log keeps them. */
  keysPerOrganisation: boundSchema,
  /** Most commands per minute from one person, on each replica. */
  commandsPerPersonPerMinute: boundSchema,
  /** Most commands per minute from all members of an organisation, on each replica. */
  commandsPerOrganisationPerMinute: boundSchema,
};
/** Bounds in force, with defaults filled in. */
export const boundsSchema = z.object(boundsShape).required();
export const boundDefaults = {
  activeKeysPerOrganisation: 10_000,
  keysPerOrganisation: 100_000,
  commandsPerPersonPerMinute: 120,
  commandsPerOrganisationPerMinute: 600,
} as const satisfies Bounds;
export type Bounds = Readonly<z.infer<typeof boundsSchema>>;
