/**
 * Schemas of the resources in the admin API's answers. They are tolerant, so clients ignore fields of later versions. Ids are
 * plain strings, because the log also contains what earlier writers allowed.
 */
import { z } from 'zod';
import { releaseShape } from '../events/changes.ts';
import { fleetKinds } from '../events/fleet.ts';
import {
  affinitySchema,
  dialectSchema,
  expiryChoiceSchema,
  keyStateSchema,
  nodeTokenStates,
  roleSchema,
  surfaceSchema,
} from '../names.ts';
import { shownMembers } from '../records/gateway-members.ts';
import { liveNodeSchema } from '../records/node-messages.ts';
import { memberSchemas } from '../records/status.ts';

const id = z.string();
export const position = z.int().min(0);
const moment = z.string();
const count = z.int().min(0);
const models = z.union([z.literal('*'), z.array(id)]);
const limits = {
  requestsPerMinute: count.optional(),
  concurrency: count.optional(),
  contextTokens: count.optional(),
};

export const organisationSchema = z.object({
  id,
  name: z.string(),
  /** null means that the organisation may not use inference. */
  tier: id.nullable(),
  /** First day of a billing period. */
  anchor: z.string(),
  suspended: z.boolean(),
});
export const memberSchema = z.object({ organisation: id, person: id, role: roleSchema });
export const tierSchema = z.object({
  id,
  rank: z.int(),
  ...limits,
  monthlyTokens: count.optional(),
  models,
});
export const anonymousSchema = z.object({
  freeTurns: count,
  networkFactor: count.optional(),
  ...limits,
  models,
  total: z
    .object({
      requestsPerMinute: count.optional(),
      concurrency: count.optional(),
      tokensPerDay: count.optional(),
    })
    .optional(),
});
export const modelSchema = z.object({
  id,
  family: z.string(),
  added: moment,
  weight: z.int(),
  affinity: affinitySchema,
});
export const apiKeySchema = z.object({
  id,
  organisation: id,
  name: z.string(),
  expires: expiryChoiceSchema,
  expiresAt: moment.nullable(),
  createdAt: moment.nullable(),
  createdBy: z.string(),
  state: keyStateSchema,
  revokedAt: moment.optional(),
  revokedBy: z.string().optional(),
});
export const stackSchema = z.object({
  id,
  organisation: id,
  surface: surfaceSchema,
  models: z.array(id),
  nodes: z.array(id),
});
export const poolSchema = z.object({ models: z.array(id), nodes: z.array(id) });
const nodePlaceSchema = z.union([
  z.object({ kind: z.literal('pool') }),
  z.object({ kind: z.literal('stack'), id }),
  z.object({ kind: z.literal('organisation'), id }),
]);
export const nodeSchema = z.object({
  id,
  place: nodePlaceSchema,
  url: z.string(),
  dialect: dialectSchema,
  credential: z.string().optional(),
  /** Catalog ids mapped to the engine's names, for models whose names differ. */
  models: z.record(z.string(), z.string()).optional(),
  agent: z.boolean(),
  drained: z.boolean(),
  up: z.boolean(),
  loaded: z.array(z.string()),
  /** Loaded models that only rerank, as the engine shows. Left out if there are none. */
  rerankModels: z.array(z.string()).optional(),
  /** Name of the replica that reports on the node. */
  owner: z.string().optional(),
  generation: count,
  reason: z.string().optional(),
  changedAt: moment.optional(),
});
/** Node together with its agent's last report. Only reads of the present return it. */
export const liveNodeResourceSchema = nodeSchema.extend(liveNodeSchema.partial().shape);
export const nodeTokenSchema = z.object({
  id,
  node: id,
  createdAt: moment.nullable(),
  state: z.enum(nodeTokenStates),
});
export const logSignerSchema = z.object({
  fingerprint: z.string(),
  publicKey: z.string(),
  /** Names of the replicas that sign with this key. */
  replicas: z.array(z.string()),
});
export const fleetChangeSchema = z.object({
  action: z.enum(['create', 'change', 'remove']),
  kind: z.enum(fleetKinds),
  /** `<organisation>/<person>` for a member. `pool/<model>` or `<stack>/<model>` for an install. */
  id: z.string(),
  /** Names of the changed fields. */
  fields: z.array(z.string()).optional(),
  /** Values of the changed fields. A side is absent if the field has no value there. */
  values: z
    .array(z.object({ field: z.string(), before: z.unknown().optional(), after: z.unknown().optional() }))
    .optional(),
});
export const gatewayStatusSchema = z.object({
  name: z.string(),
  state: z.enum(['SYNCED', 'LAGGING', 'STALE', 'DIVERGED']),
  applied: position,
  lagEvents: count,
  freshSeconds: z.number().nullable(),
  digest: z.string(),
  seenSeconds: z.number(),
  foldVersion: z.int(),
  incarnation: z.string(),
  /** The gateway's log, if it follows another log than this replica. */
  log: z.string().nullable().optional(),
  conflict: z.string().optional(),
  ...memberSchemas(shownMembers),
  forgotten: z.literal(true).optional(),
});
export const gatewayConfirmationSchema = z.object({
  name: z.string(),
  incarnation: z.string(),
  confirmed: z.boolean(),
  seconds: z.number(),
});
export const confirmationsSchema = z.object({
  complete: z.boolean(),
  gateways: z.array(gatewayConfirmationSchema),
  /** Reason why the list of gateways may be incomplete. */
  reason: z.string().optional(),
});
export const replicaStatusSchema = z.object({
  log: z.string().nullable(),
  position,
  digest: z.string(),
  /** Digests by table. */
  digests: z.record(z.string(), z.string()),
  foldVersion: z.int(),
  replica: z.string(),
  /** All reporting control planes, with the position that each has folded. */
  controlPlanes: z.array(z.object({ name: z.string(), applied: position })).optional(),
  skipped: count,
  /** Fingerprints of the keys whose signatures are accepted. */
  signers: z.array(z.string()),
  /** Fingerprint of this replica's key. */
  signer: z.string().optional(),
  halted: z.string().optional(),
});
/** Present use of one subject's limits, over all gateways. null means unknown to this replica, or unlimited. */
export const limitUseSchema = z.object({
  /** null for all visitors together. */
  organisation: id.nullable(),
  tier: z.string().nullable(),
  /** Set if the organisation is suspended. Its limits are then 0. */
  suspended: z.literal(true).optional(),
  requests: z.object({ used: count.nullable(), limit: count.nullable(), secondsLeft: count.nullable() }),
  concurrency: z.object({ inFlight: count.nullable(), limit: count.nullable() }),
  /** Tokens that count against the allowance: completed by the pool, plus adjustments; for visitors, of the day. */
  tokens: z.object({ used: count, limit: z.int().nullable(), refillsAt: z.string() }),
  gateways: z.array(
    z.object({
      /** Gateway's name, or `rows` for totals that a restore took from the backup. */
      name: z.string(),
      requests: count.nullable(),
      inFlight: count.nullable(),
      tokens: count,
      /** Seconds since the gateway last published its use. */
      ageSeconds: z.number(),
    }),
  ),
  /** Limits on gateways that the open change has reached, if they differ. */
  inWave: z
    .object({
      ...releaseShape,
      requestsPerMinute: count.nullable(),
      concurrency: count.nullable(),
      tokens: z.int().nullable(),
    })
    .optional(),
  position,
});
export const logRecordLineSchema = z.object({
  offset: count,
  /** The record in base64. */
  value: z.string(),
  signature: z.string().optional(),
});

/** Body of every refusal of the admin API, whatever its status. */
export const adminErrorSchema = z.object({
  error: z.object({
    type: z.string(),
    code: z.string(),
    message: z.string(),
    status: z.int(),
    path: z.string(),
    /** Advice on what to do next. */
    next: z.string().optional(),
    details: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  }),
});

/** Fields that every answer to a command contains in addition to the resource. */
export const commandOutcomeShape = {
  position,
  /** Set if nothing had to change. */
  unchanged: z.literal(true).optional(),
  /** Warnings about allowed but unusual settings, and about facts that were unknown when the command was written. */
  warnings: z.array(z.string()).optional(),
  /** Set if nothing was written. The resource is shown as it would be. */
  dryRun: z.literal(true).optional(),
  /** Set if a command with this Idempotency-Key was carried out before. Values that are shown only once are then left out. */
  repeated: z.literal(true).optional(),
  next: z.string().optional(),
};

export function listSchema<Item extends z.ZodType>(items: Item) {
  return z.object({ items: z.array(items), position });
}

export function pageSchema<Item extends z.ZodType>(items: Item) {
  return listSchema(items).extend({
    /** Cursor to pass as `after`. Absent on the last page. */
    next: z.string().optional(),
    /** Number of rows on all pages. Absent if a search has not read all of a long list. */
    total: count.optional(),
  });
}

/** Resource as a command's answer contains it. */
export function written<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend(commandOutcomeShape);
}

/** Resource with a value that is shown only once. The value is absent in a dry run and in the answer to a repeat. */
export function withSecret<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend({ value: z.string().optional(), ...commandOutcomeShape });
}

/** Keys created by one command, in the order of the request, with their values. */
export const createdKeysSchema = z.object({
  items: z.array(z.object({ id, organisation: id, name: z.string(), value: z.string().optional() })),
  ...commandOutcomeShape,
});

export const createdTokensSchema = z.object({
  items: z.array(z.object({ id, node: id, value: z.string().optional() })),
  ...commandOutcomeShape,
});

export const removed = z.object({ id, ...commandOutcomeShape });
export const removedMember = z.object({ organisation: id, person: id, ...commandOutcomeShape });
/** Fingerprints of all signers after the change. Absent if nothing changed. */
export const signersAfter = { signers: z.array(z.string()).optional() };
