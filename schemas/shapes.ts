/**
 * Fields that commands and the fleet file share. The fields of events are less strict, because old events contain other
 * values.
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

/** Name that the log records as the author of the operator's commands. Persons must not use this name. */
export const operatorName = 'operator';
/** Name that the log records as the author of checkpoints, because no person commands them. */
export const checkpointAuthor = 'checkpoint';
/** Author of rows in logs that `snapshot restore` of versions up to 0.2.0 wrote. */
const restoreAuthor = 'restore';
/** Returns the author name of a replica's records. No person has this name, because a person's id contains no colon. */
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
/** Models that a tier or visitors may use. `*` selects every model of the pool. */
export const modelSelectionSchema = z.union([z.literal('*'), z.array(modelIdSchema).max(10_000)], {
  error: 'must be "*" or a list of model ids',
});

/** Limits of a tier or on visitors. If a limit is left out, requests are not limited by it. */
export const limitsShape = {
  requestsPerMinute: limitSchema.optional(),
  concurrency: limitSchema.optional(),
  contextTokens: limitSchema.optional(),
};

/** Limits on each visitor, on each network, and on all visitors together. A limit that is left out does not apply. */
export const visitorsShape = {
  /** Number of completed responses that a visitor may get per month. */
  freeTurns: limitSchema,
  /** Daily limit of one network, as a multiple of a visitor's free turns. Defaults to 8. */
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
  /** Maps catalog ids to the engine's names for the models. Contains only models whose two names differ. */
  models: z.record(modelIdSchema, z.string().min(1).max(200)).optional(),
  /** If true, an agent reports the node's health. Otherwise the control plane that owns the node probes it. */
  agent: z.boolean().optional(),
};

const boundSchema = z.int().min(1).max(1_000_000).optional();
/** Bounds on what members may do. `boundDefaults` supplies the bounds that are left out. */
export const boundsShape = {
  /** Maximum number of an organisation's keys that are neither revoked nor expired. */
  activeKeysPerOrganisation: boundSchema,
  /** Maximum number of an organisation's keys. Revoked and expired keys count too, because the log keeps them. */
  keysPerOrganisation: boundSchema,
  /** Maximum number of commands per minute from one person, on each replica. */
  commandsPerPersonPerMinute: boundSchema,
  /** Maximum number of commands per minute from all members of an organisation, on each replica. */
  commandsPerOrganisationPerMinute: boundSchema,
};
/** Bounds that apply, which are the bounds that were set and defaults for all others. */
export const boundsSchema = z.object(boundsShape).required();
export const boundDefaults = {
  activeKeysPerOrganisation: 10_000,
  keysPerOrganisation: 100_000,
  commandsPerPersonPerMinute: 120,
  commandsPerOrganisationPerMinute: 600,
} as const satisfies Bounds;
export type Bounds = Readonly<z.infer<typeof boundsSchema>>;
