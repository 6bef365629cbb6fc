/**
 * The resources that the admin API answers with: one schema each. Readers are tolerant: fields of later versions are ignored,
 * and ids are plain strings, because the log also holds what earlier writers allowed.
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
  /** null: no inference entitlement. */
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
  /** Ids of the nodes in it. */
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
  /** Catalog id → the engine's name, where they differ. */
  models: z.record(z.string(), z.string()).optional(),
  agent: z.boolean(),
  drained: z.boolean(),
  up: z.boolean(),
  loaded: z.array(z.string()),
  /** Those of the loaded that rerank and do nothing else, as the engine shows it; left out where there are none. */
  rerankModels: z.array(z.string()).optional(),
  /** Name of the replica that reports on it. */
  owner: z.string().optional(),
  generation: count,
  reason: z.string().optional(),
  changedAt: moment.optional(),
});
/** A node with what its agent reported last; only in reads of the present. */
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
  /** Names of the replicas that sign with it. */
  replicas: z.array(z.string()),
});
export const fleetChangeSchema = z.object({
  action: z.enum(['create', 'change', 'remove']),
  kind: z.enum(fleetKinds),
  /** `<organisation>/<person>` of a member, `pool/<model>` or `<stack>/<model>` of an install. */
  id: z.string(),
  /** Names of the fields that change. */
  fields: z.array(z.string()).optional(),
  /** Their values; absent before or after: it had or has none. */
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
  /** Where it follows another log than this replica. */
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
  /** Why the list of gateways may be incomplete. */
  reason: z.string().optional(),
});
export const replicaStatusSchema = z.object({
  log: z.string().nullable(),
  position,
  digest: z.string(),
  /** Of each table. */
  digests: z.record(z.string(), z.string()),
  foldVersion: z.int(),
  replica: z.string(),
  /** All that reported, with the position that each has folded. */
  controlPlanes: z.array(z.object({ name: z.string(), applied: position })).optional(),
  skipped: count,
  /** Fingerprints of those whose signatures count. */
  signers: z.array(z.string()),
  /** Fingerprint of the key of this replica. */
  signer: z.string().optional(),
  halted: z.string().optional(),
});
/** What one subject uses of its limits now, over all gateways. null: not known here, or without limit. */
export const limitUseSchema = z.object({
  /** null: all visitors together. */
  organisation: id.nullable(),
  tier: z.string().nullable(),
  /** A suspended organisation may use nothing: its limits are 0. */
  suspended: z.literal(true).optional(),
  requests: z.object({ used: count.nullable(), limit: count.nullable(), secondsLeft: count.nullable() }),
  concurrency: z.object({ inFlight: count.nullable(), limit: count.nullable() }),
  /** What counts against the allowance: of the pool, with adjustments. Of visitors: what counts of the day. */
  tokens: z.object({ used: count, limit: z.int().nullable(), refillsAt: z.string() }),
  gateways: z.array(
    z.object({
      /** `rows`: what a restore took from the totals of the backup. */
      name: z.string(),
      requests: count.nullable(),
      inFlight: count.nullable(),
      tokens: count,
      /** Since the gateway last published. */
      ageSeconds: z.number(),
    }),
  ),
  /** Limits on gateways that the open change has reached, where they are others. */
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
  /** Base64 of the record. */
  value: z.string(),
  signature: z.string().optional(),
});

/** Every refusal of the admin API, whatever its status. */
export const adminErrorSchema = z.object({
  error: z.object({
    type: z.string(),
    code: z.string(),
    message: z.string(),
    status: z.int(),
    path: z.string(),
    /** What to do about it. */
    next: z.string().optional(),
    details: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  }),
});

/** What each answer to a command has in addition to the resource. */
export const commandOutcomeShape = {
  position,
  /** Nothing was to be changed. */
  unchanged: z.literal(true).optional(),
  /** What is allowed and rarely meant, of what the command set, and what was not known when it was written. */
  warnings: z.array(z.string()).optional(),
  /** The resource is shown as it would be; nothing was written. */
  dryRun: z.literal(true).optional(),
  /** The command with this Idempotency-Key was carried out before; what is shown once is left out. */
  repeated: z.literal(true).optional(),
  next: z.string().optional(),
};

export function listOf<Item extends z.ZodType>(items: Item) {
  return z.object({ items: z.array(items), position });
}

/** A list that is read page after page. */
export function pageOf<Item extends z.ZodType>(items: Item) {
  return listOf(items).extend({
    /** For `after`; absent where this page is the last one. */
    next: z.string().optional(),
    /** Rows of all pages; absent where a search of a long list has not read all of it. */
    total: count.optional(),
  });
}

/** A resource after a command. */
export function written<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend(commandOutcomeShape);
}

/** A resource with a value that is shown once: absent in a dry run and in the answer to a repeat. */
export function withSecret<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend({ value: z.string().optional(), ...commandOutcomeShape });
}

/** Of many: as they were asked for, with the values that are shown once. */
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
/** Fingerprints of all signers after the change; absent where there was none. */
export const signersAfter = { signers: z.array(z.string()).optional() };
