/** The operations of the admin API about usage, the use of keys, the turns of visitors, the last hour and single requests. */
import { z } from 'zod';
import { daySchema, idSchema, stackIdSchema } from '../names.ts';
import { usageLineSchema } from '../records/usage.ts';
import { type OperationRows, operation, pageQuerySchema, readingRoles } from './admin-row.ts';
import { pathSchemas } from './commands.ts';
import {
  requestListQuerySchema,
  requestListSchema,
  requestsMessageSchema,
  requestTailQuerySchema,
} from './requests.ts';

const id = z.string();
const moment = z.string();
const position = z.int().min(0);
const count = z.int().min(0);

const refusalSchema = z.object({
  status: z.int(),
  type: z.string(),
  requests: count,
  lastAt: moment,
  /** The newest of them, for `headgate explain --request`. */
  lastRequest: z.string(),
});
/** How much of the last hour is known. */
const knownShape = {
  since: moment,
  /** Gateways that are silent, or of a build that reports no requests: what they have is missing. */
  unanswered: z.array(z.string()),
  /** There were more models or keys than a gateway reports apart. */
  partial: z.literal(true).optional(),
  position,
};
/** Of the last hour, as the gateways report it each ten seconds. */
const activitySchema = z.object({
  refusals: z.array(refusalSchema),
  callers: z.array(
    z.object({ stack: id, surface: z.enum(['openai', 'anthropic']), key: id, requests: count }),
  ),
  ...knownShape,
});
/** Of the last hour and all organisations, the most frequent first; of callers without one, where nothing named it. */
const fleetActivitySchema = z.object({
  refusals: z.array(refusalSchema.extend({ organisation: id.optional() })),
  ...knownShape,
});
const rate = z.number().min(0);
/** ms; of what is above the largest bound that gateways distinguish, that bound. */
const quantilesSchema = z.object({ p50: rate, p95: rate });
const trafficSchema = z.object({
  stepSeconds: z.int(),
  /** End of the last step: of what came later not all gateways have reported yet. */
  until: moment,
  /** Oldest first; a step in which nothing happened is left out. */
  steps: z.array(
    z.object({
      /** Its end. */
      at: moment,
      requestsPerSecond: rate,
      /** By type. */
      refusedPerSecond: z.record(z.string(), rate),
      /** Of completed requests, prompts and completions. */
      tokensPerSecond: rate,
      /** Of streams, from the request line. */
      firstTokenMs: quantilesSchema.optional(),
      /** What the gateway added before a node had the request. */
      ownTimeMs: quantilesSchema.optional(),
      /** Of a gateway, or of all. */
      inFlight: rate.optional(),
    }),
  ),
  /** Of the whole fleet: what each node answers now, the mean of half a minute. */
  nodes: z.array(z.object({ node: id, requestsPerSecond: rate, tokensPerSecond: rate })).optional(),
  ...knownShape,
});
const keyUseSchema = z.object({
  key: id,
  lastUsedAt: z.string(),
  /** In the present hour and the 23 before it. */
  requestsOfDay: count,
});
export const usageAdjustmentSchema = z.object({
  organisation: id,
  period: z.string(),
  /** Sum of all adjustments of the period. */
  adjustedTokens: z.int(),
});
const usageTotalsSchema = z.object({
  organisation: id,
  /** First day. */
  period: z.string(),
  /** All that were completed, by own nodes and stacks too, without adjustments. */
  totalTokens: count,
  /** What counts against the allowance: completed by the pool, with adjustments; null of a past period. */
  countedTokens: count.nullable(),
  /** Sum of the adjustments by hand; negative gave allowance back. */
  adjustedTokens: z.int(),
  requests: count,
  models: z.array(
    z.object({
      model: id,
      promptTokens: count,
      completionTokens: count,
      totalTokens: count,
      requests: count,
    }),
  ),
  /** Tokens per period; null if unlimited, 0 without a tier. */
  allowance: count.nullable(),
  /** First days of the present period and of those with usage, the newest first. */
  periods: z.array(z.string()),
  position,
});
const visitorSumSchema = z.object({
  /** First day, UTC. */
  from: z.string(),
  /** Completed turns. */
  requests: count,
  promptTokens: count,
  completionTokens: count,
  totalTokens: count,
});
/** Of all visitors together; none of them is named. */
const visitorUsageSchema = z.object({
  visitors: z.object({ day: visitorSumSchema, month: visitorSumSchema }),
  position,
});
const exportQuerySchema = z
  .object({
    organisation: idSchema.optional(),
    /** First day of completion, inclusive, and last, exclusive. */
    from: daySchema.optional(),
    to: daySchema.optional(),
  })
  .refine(({ from, to }) => from === undefined || to === undefined || from < to, {
    path: ['from'],
    error: 'it must be before `to`, which is exclusive',
  });

export const activityRows = {
  'usage.get': operation(readingRoles, 'Usage of an organisation in a period', {
    query: z.object({ organisation: idSchema, period: daySchema.optional() }),
    answer: usageTotalsSchema,
  }),
  'usage.keys': operation(readingRoles, 'When each key was last used, and its requests of 24 hours', {
    /** Of the keys that `GET /keys` has on the same page. */
    query: pageQuerySchema.omit({ at: true, min: true }),
    answer: z.object({
      items: z.array(keyUseSchema),
      /** As `GET /keys` has it. */
      next: z.string().optional(),
      position,
    }),
  }),
  'usage.visitors': operation('operator', 'Usage of all visitors together, today and this month', {
    answer: visitorUsageSchema,
  }),
  'usage.export': operation(readingRoles, 'Completed requests, one a line', {
    opens: 'export',
    query: exportQuerySchema,
    mediaType: 'application/x-ndjson',
    answer: usageLineSchema,
  }),
  'organisation.activity': operation(
    readingRoles,
    'Refusals and callers of stacks of an organisation in the last hour',
    { params: pathSchemas.id, answer: activitySchema },
  ),
  'request.list': operation(readingRoles, 'Requests of all gateways, newest first', {
    opens: 'question',
    query: requestListQuerySchema,
    answer: requestListSchema,
  }),
  'request.tail': operation(readingRoles, 'The newest requests, then each that ends', {
    opens: 'follow',
    query: requestTailQuerySchema,
    mediaType: 'text/event-stream',
    answer: requestsMessageSchema,
  }),
  'traffic.get': operation(readingRoles, 'Requests, refusals, tokens and times of the last hour', {
    /** All that are given; what is of one gateway or one node is for operators. */
    query: z.object({
      organisation: idSchema.optional(),
      stack: stackIdSchema.optional(),
      gateway: z.string().min(1).max(200).optional(),
      node: idSchema.optional(),
    }),
    answer: trafficSchema,
  }),
  'activity.get': operation('operator', 'Refusals of the whole fleet in the last hour', {
    answer: fleetActivitySchema,
  }),
} satisfies OperationRows;
