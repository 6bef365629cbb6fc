/**
 * Schemas of the resources that the admin API returns. They ignore unknown fields, so that clients can read responses of
 * later versions. Ids are plain strings, because the log also contains ids that only earlier versions accepted.
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
  /** Tier of the organisation. If it is null, the organisation may not use inference. */
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
  /** Maps catalog ids to the engine's names for the models. Contains only models whose two names differ. */
  models: z.record(z.string(), z.string()).optional(),
  agent: z.boolean(),
  drained: z.boolean(),
  up: z.boolean(),
  loaded: z.array(z.string()),
  /** Loaded models that, according to the engine, can only rerank. Absent if there are none. */
  rerankModels: z.array(z.string()).optional(),
  /** Name of the control-plane replica that reports on the node. */
  owner: z.string().optional(),
  generation: count,
  reason: z.string().optional(),
  changedAt: moment.optional(),
});
/** Node with the last report of its agent. Only reads of the present state return it. */
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
  /** Names of the control-plane replicas that sign with this key. */
  replicas: z.array(z.string()),
});
export const fleetChangeSchema = z.object({
  action: z.enum(['create', 'change', 'remove']),
  kind: z.enum(fleetKinds),
  /** Id of the changed object: `<organisation>/<person>` for a member, `pool/<model>` or `<stack>/<model>` for an install. */
  id: z.string(),
  fields: z.array(z.string()).optional(),
  /** Changed fields with their values. `before` is absent if the change sets the field, `after` if it removes the field. */
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
  /** Id of the log that the gateway follows. Set only if this replica follows a different one. */
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
  digests: z.record(z.string(), z.string()),
  foldVersion: z.int(),
  replica: z.string(),
  /** Control planes that are reporting, each with the position up to which it has folded the log. */
  controlPlanes: z.array(z.object({ name: z.string(), applied: position })).optional(),
  skipped: count,
  /** Fingerprints of the keys whose signatures the log accepts. */
  signers: z.array(z.string()),
  /** Fingerprint of the key with which this replica signs. */
  signer: z.string().optional(),
  halted: z.string().optional(),
});
/** Current fleet-wide use of one subject's limits. A null use is unknown to this replica. A null limit means unlimited. */
export const limitUseSchema = z.object({
  /** Organisation that the limits apply to, or null for all visitors together. */
  organisation: id.nullable(),
  tier: z.string().nullable(),
  /** Set if the organisation is suspended, which makes its limits 0. */
  suspended: z.literal(true).optional(),
  requests: z.object({ used: count.nullable(), limit: count.nullable(), secondsLeft: count.nullable() }),
  concurrency: z.object({ inFlight: count.nullable(), limit: count.nullable() }),
  /** Tokens that count against the allowance, including adjustments. For visitors, the tokens of the current day. */
  tokens: z.object({ used: count, limit: z.int().nullable(), refillsAt: z.string() }),
  gateways: z.array(
    z.object({
      /** Name of the gateway, or `rows` for totals that a restore took from the backup. */
      name: z.string(),
      requests: count.nullable(),
      inFlight: count.nullable(),
      tokens: count,
      /** Seconds since the gateway last published its counters. */
      ageSeconds: z.number(),
    }),
  ),
  /** Limits on the gateways that the open change has reached. Absent if they equal the limits on the other gateways. */
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
  /** Raw bytes of the record, in base64. */
  value: z.string(),
  signature: z.string().optional(),
});

/** Body of every refusal by the admin API, whatever its status. */
export const adminErrorSchema = z.object({
  error: z.object({
    type: z.string(),
    code: z.string(),
    message: z.string(),
    status: z.int(),
    path: z.string(),
    /** Advice on what the caller can do next. */
    next: z.string().optional(),
    details: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  }),
});

/** Fields that every response to a command contains in addition to the resource. */
export const commandOutcomeShape = {
  position,
  /** Set if the command changed nothing, because the state was already as requested. */
  unchanged: z.literal(true).optional(),
  /** Warnings about settings that are allowed but unusual, and about facts that were unknown when the command ran. */
  warnings: z.array(z.string()).optional(),
  /** Set for a dry run, which wrote nothing. The response contains the resource as the command would have produced it. */
  dryRun: z.literal(true).optional(),
  /** Set if an earlier request with this Idempotency-Key already ran the command. Values shown only once are then omitted. */
  repeated: z.literal(true).optional(),
  next: z.string().optional(),
};

export function listSchema<Item extends z.ZodType>(items: Item) {
  return z.object({ items: z.array(items), position });
}

export function pageSchema<Item extends z.ZodType>(items: Item) {
  return listSchema(items).extend({
    /** Cursor to pass as `after` for the next page. Absent on the last page. */
    next: z.string().optional(),
    /** Number of rows on all pages together. Absent if a search stopped before the end of a long list. */
    total: count.optional(),
  });
}

/** Returns the response schema for commands that return this resource. */
export function written<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend(commandOutcomeShape);
}

/** Returns the response schema for commands that show a secret once. Dry runs and repeated commands omit the secret. */
export function withSecret<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend({ value: z.string().optional(), ...commandOutcomeShape });
}

/** Keys that one command created, with their values, in the order of the request. */
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
/** Fingerprints of all signers after the change, or absent if nothing changed. */
export const signersAfter = { signers: z.array(z.string()).optional() };
