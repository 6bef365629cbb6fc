/**
 * What the admin API answers: one schema and type for each resource, and a table from route to response.
 * Readers are tolerant: fields of later versions are ignored, and ids are plain strings, because the log also holds what
 * earlier writers allowed. Clients get the type of an answer by its route: `AdminResponse<'GET /keys/:id'>`.
 */
import { z } from 'zod';
import { activityResponses, usageAdjustmentSchema } from './admin-activity.ts';
import { historyResponses, undoneShape } from './admin-history.ts';
import { signInResponses } from './admin-sign-in.ts';
import { decisionRecordSchema } from './decisions.ts';
import { explainMatrixSchema, explanationSchema, gatewayDecisionSchema } from './explanations.ts';
import { fleetKinds, fleetSchema } from './fleet.ts';
import {
  affinitySchema,
  dialectSchema,
  expiryChoiceSchema,
  keyStateSchema,
  roleSchema,
  surfaceSchema,
} from './names.ts';
import { liveNodeSchema } from './node-messages.ts';
import { boundsSchema } from './shapes.ts';
import { usageLineSchema } from './usage.ts';

const id = z.string();
const position = z.int().min(0);
const moment = z.string();
const count = z.int().min(0);
const models = z.union([z.literal('*'), z.array(id)]);
const limits = {
  requestsPerMinute: count.optional(),
  concurrency: count.optional(),
  contextTokens: count.optional(),
};

const organisationSchema = z.object({
  id,
  name: z.string(),
  /** null: no inference entitlement. */
  tier: id.nullable(),
  /** First day of a billing period. */
  anchor: z.string(),
  suspended: z.boolean(),
});
const memberSchema = z.object({ organisation: id, person: id, role: roleSchema });
const tierSchema = z.object({
  id,
  rank: z.int(),
  ...limits,
  monthlyTokens: count.optional(),
  models,
});
const anonymousSchema = z.object({
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
const modelSchema = z.object({
  id,
  family: z.string(),
  added: moment,
  weight: z.int(),
  affinity: affinitySchema,
});
const apiKeySchema = z.object({
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
const stackSchema = z.object({
  id,
  organisation: id,
  surface: surfaceSchema,
  models: z.array(id),
  /** Ids of the nodes in it. */
  nodes: z.array(id),
});
const poolSchema = z.object({ models: z.array(id), nodes: z.array(id) });
const nodePlaceSchema = z.union([
  z.object({ kind: z.literal('pool') }),
  z.object({ kind: z.literal('stack'), id }),
  z.object({ kind: z.literal('organisation'), id }),
]);
const nodeSchema = z.object({
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
  /** Name of the replica that reports on it. */
  owner: z.string().optional(),
  generation: count,
  reason: z.string().optional(),
  changedAt: moment.optional(),
});
/** A node with what its agent reported last; only in reads of the present. */
const liveNodeResourceSchema = nodeSchema.extend(liveNodeSchema.partial().shape);
const nodeTokenSchema = z.object({
  id,
  node: id,
  createdAt: moment.nullable(),
  state: z.enum(['active', 'revoked']),
});
const logSignerSchema = z.object({
  fingerprint: z.string(),
  publicKey: z.string(),
  /** Names of the replicas that sign with it. */
  replicas: z.array(z.string()),
});
const fleetChangeSchema = z.object({
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
const gatewayStatusSchema = z.object({
  name: z.string(),
  state: z.enum(['SYNCED', 'LAGGING', 'STALE', 'DIVERGED']),
  applied: position,
  lagEvents: count,
  freshSeconds: z.number().nullable(),
  digest: z.string(),
  seenSeconds: z.number(),
  stalePolicy: z.enum(['fence', 'serve']).optional(),
  foldVersion: z.int(),
  incarnation: z.string(),
  /** Where it follows another log than this replica. */
  log: z.string().nullable().optional(),
  conflict: z.string().optional(),
  halted: z.string().optional(),
  forgotten: z.literal(true).optional(),
});
const gatewayConfirmationSchema = z.object({
  name: z.string(),
  incarnation: z.string(),
  confirmed: z.boolean(),
  seconds: z.number(),
});
const confirmationsSchema = z.object({
  complete: z.boolean(),
  gateways: z.array(gatewayConfirmationSchema),
  /** Why the list of gateways may be incomplete. */
  reason: z.string().optional(),
});
const replicaStatusSchema = z.object({
  log: z.string().nullable(),
  position,
  digest: z.string(),
  /** Of each table. */
  digests: z.record(z.string(), z.string()),
  foldVersion: z.int(),
  replica: z.string(),
  skipped: count,
  /** Fingerprints of those whose signatures count. */
  signers: z.array(z.string()),
  /** Fingerprint of the key of this replica. */
  signer: z.string().optional(),
  halted: z.string().optional(),
});
/** What one subject uses of its limits now, over all gateways. null: not known here, or without limit. */
const limitUseSchema = z.object({
  /** null: all visitors together. */
  organisation: id.nullable(),
  tier: z.string().nullable(),
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
  position,
});
const logRecordLineSchema = z.object({
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
const commandOutcomeShape = {
  position,
  /** Nothing was to be changed. */
  unchanged: z.literal(true).optional(),
  /** What is allowed and rarely meant, of what the command set. */
  warnings: z.array(z.string()).optional(),
  /** The resource is shown as it would be; nothing was written. */
  dryRun: z.literal(true).optional(),
  /** The command with this Idempotency-Key was carried out before; what is shown once is left out. */
  repeated: z.literal(true).optional(),
  next: z.string().optional(),
};

function listOf<Item extends z.ZodType>(items: Item) {
  return z.object({ items: z.array(items), position });
}

/** A list that is read page after page. */
function pageOf<Item extends z.ZodType>(items: Item) {
  return listOf(items).extend({
    /** For `after`; absent where this page is the last one. */
    next: z.string().optional(),
    /** Rows of all pages; where a `limit` was given. */
    total: count.optional(),
  });
}

/** A resource after a command. */
function written<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend(commandOutcomeShape);
}

/** A resource with a value that is shown once: absent in a dry run and in the answer to a repeat. */
function withSecret<Shape extends z.ZodRawShape>(resource: z.ZodObject<Shape>) {
  return resource.extend({ value: z.string().optional(), ...commandOutcomeShape });
}

const removed = z.object({ id, ...commandOutcomeShape });
const removedMember = z.object({ organisation: id, person: id, ...commandOutcomeShape });
/** Fingerprints of all signers after the change; absent where there was none. */
const signersAfter = { signers: z.array(z.string()).optional() };

/** JSON answers by method and path, below the prefix of the admin API. */
export const adminResponses = {
  'GET /openapi.json': z.looseObject({ openapi: z.string() }),
  ...signInResponses,
  'GET /status': replicaStatusSchema,
  'GET /gateways': listOf(gatewayStatusSchema),
  'GET /gateways/:name': gatewayStatusSchema,
  'DELETE /gateways/:name': z.object({
    name: z.string(),
    /** How many processes of the name, and those of them that reported in the last ten seconds and may run on. */
    ...{ forgotten: count, reporting: count.optional() },
    dryRun: z.literal(true).optional(),
    position,
  }),
  'GET /confirmations/:position': confirmationsSchema,
  ...historyResponses,
  ...activityResponses,
  'POST /explain': explanationSchema,
  'GET /explain/matrix': explainMatrixSchema,
  'GET /decisions/:request': gatewayDecisionSchema,
  'POST /organisations/:id/usage-adjustments': written(usageAdjustmentSchema),
  'GET /limits': listOf(limitUseSchema),
  'GET /limits/visitors': limitUseSchema,
  'GET /organisations/:id/limits': limitUseSchema,
  'GET /fleet': fleetSchema,
  'POST /fleet/diff': z.object({ changes: z.array(fleetChangeSchema), position }),
  'POST /fleet/apply': z.object({ changes: z.array(fleetChangeSchema), ...commandOutcomeShape }),
  'POST /events/:position/undo': z.object({ ...undoneShape, ...commandOutcomeShape }),
  'GET /signers': listOf(logSignerSchema),
  'POST /signers': written(z.object({ fingerprint: z.string(), publicKey: z.string(), ...signersAfter })),
  'DELETE /signers/:fingerprint': written(z.object({ fingerprint: z.string(), ...signersAfter })),
  'GET /organisations': pageOf(organisationSchema),
  'GET /organisations/:id': organisationSchema,
  'POST /organisations': written(organisationSchema),
  'PATCH /organisations/:id': written(organisationSchema),
  'DELETE /organisations/:id': removed,
  'GET /members': pageOf(memberSchema),
  'PUT /organisations/:id/members/:person': written(memberSchema),
  'DELETE /organisations/:id/members/:person': removedMember,
  'GET /tiers': listOf(tierSchema),
  'GET /tiers/:id': tierSchema,
  'PUT /tiers/:id': written(tierSchema),
  'DELETE /tiers/:id': removed,
  'GET /anonymous': anonymousSchema,
  'PUT /anonymous': written(anonymousSchema),
  'GET /bounds': boundsSchema,
  'PUT /bounds': written(boundsSchema),
  'GET /models': pageOf(modelSchema),
  'GET /models/:id': modelSchema,
  'PUT /models/:id': written(modelSchema),
  'DELETE /models/:id': removed,
  'GET /keys': pageOf(apiKeySchema),
  'GET /keys/:id': apiKeySchema,
  'POST /keys': withSecret(apiKeySchema),
  'POST /keys/:id/revoke': written(apiKeySchema),
  'GET /stacks': pageOf(stackSchema),
  'GET /stacks/:id': stackSchema,
  'POST /stacks': written(stackSchema),
  'DELETE /stacks/:id': removed,
  'PUT /stacks/:id/surface': written(stackSchema),
  'PUT /stacks/:id/models/:model': written(stackSchema),
  'DELETE /stacks/:id/models/:model': written(stackSchema),
  'GET /pool': poolSchema,
  'PUT /pool/models/:model': written(poolSchema),
  'DELETE /pool/models/:model': written(poolSchema),
  'GET /nodes': pageOf(liveNodeResourceSchema),
  'GET /nodes/:id': liveNodeResourceSchema,
  'POST /nodes': written(nodeSchema),
  'DELETE /nodes/:id': removed,
  'POST /nodes/:id/drain': written(nodeSchema),
  'POST /nodes/:id/undrain': written(nodeSchema),
  'GET /nodes/:id/tokens': listOf(nodeTokenSchema),
  'POST /nodes/:id/tokens': withSecret(nodeTokenSchema),
  'GET /tokens/:id': nodeTokenSchema,
  'POST /tokens/:id/revoke': written(nodeTokenSchema),
} as const satisfies Record<string, z.ZodType>;

/** Answers that are streams: their media type, and the schema of one line where there are lines. */
export const adminStreams = {
  'GET /log': { mediaType: 'application/x-ndjson', line: logRecordLineSchema },
  'GET /decisions': { mediaType: 'application/x-ndjson', line: decisionRecordSchema },
  'GET /usage/export': { mediaType: 'application/x-ndjson', line: usageLineSchema },
  'GET /counters': { mediaType: 'application/x-ndjson', line: undefined },
  'GET /snapshot': { mediaType: 'application/vnd.sqlite3', line: undefined },
} as const satisfies Record<string, { mediaType: string; line: z.ZodType | undefined }>;

export type AdminRoute = keyof typeof adminResponses;
/**
 * The answer of a route. Where a command is repeated and its resource was removed since, only `repeated`, `position` and
 * the resource's ids are in it.
 */
export type AdminResponse<Route extends AdminRoute> = z.infer<(typeof adminResponses)[Route]>;

export type Organisation = z.infer<typeof organisationSchema>;
export type Member = z.infer<typeof memberSchema>;
export type Tier = z.infer<typeof tierSchema>;
export type Anonymous = z.infer<typeof anonymousSchema>;
export type Model = z.infer<typeof modelSchema>;
export type ApiKey = z.infer<typeof apiKeySchema>;
export type Stack = z.infer<typeof stackSchema>;
export type Pool = z.infer<typeof poolSchema>;
export type NodeResource = z.infer<typeof nodeSchema>;
export type LiveNodeResource = z.infer<typeof liveNodeResourceSchema>;
export type NodeToken = z.infer<typeof nodeTokenSchema>;
export type FleetChange = z.infer<typeof fleetChangeSchema>;
export type GatewayStatus = z.infer<typeof gatewayStatusSchema>;
export type GatewayConfirmation = z.infer<typeof gatewayConfirmationSchema>;
export type Confirmations = z.infer<typeof confirmationsSchema>;
export type ReplicaStatus = z.infer<typeof replicaStatusSchema>;

export type LimitUse = z.infer<typeof limitUseSchema>;
export type UsageTotals = AdminResponse<'GET /usage'>;
