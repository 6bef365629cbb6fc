/** Admin API operations on usage, key use, visitors' turns, the last hour's traffic and single requests. */
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
  /** Newest of these requests, for `headgate explain --request`. */
  lastRequest: z.string(),
});
/** Completeness of the data about the last hour. */
const knownShape = {
  since: moment,
  /** Gateways whose data are missing, because they are silent or of a build that does not report requests. */
  unanswered: z.array(z.string()),
  /** Set if there were more models or keys than a gateway reports separately. */
  partial: z.literal(true).optional(),
  position,
};
/** Activity in the last hour, as gateways report it every ten seconds. */
const activitySchema = z.object({
  refusals: z.array(refusalSchema),
  callers: z.array(
    z.object({ stack: id, surface: z.enum(['openai', 'anthropic']), key: id, requests: count }),
  ),
  ...knownShape,
});
/** Most frequent refusals of the last hour. A refusal has no organisation if its request did not identify one. */
const fleetActivitySchema = z.object({
  refusals: z.array(refusalSchema.extend({ organisation: id.optional() })),
  ...knownShape,
});
const rate = z.number().min(0);
/** Quantiles in ms. Values above the gateways' largest histogram bound count as that bound. */
const quantilesSchema = z.object({ p50: rate, p95: rate });
const trafficSchema = z.object({
  stepSeconds: z.int(),
  /** End of the last step. Not all gateways have reported what came later. */
  until: moment,
  /** Steps, oldest first. Steps without traffic are left out. */
  steps: z.array(
    z.object({
      /** End of the step. */
      at: moment,
      requestsPerSecond: rate,
      /** Refusals by type. */
      refusedPerSecond: z.record(z.string(), rate),
      /** Prompt and completion tokens of completed requests. */
      tokensPerSecond: rate,
      /** Time to the first byte of streamed answers, from the request line on. */
      firstTokenMs: quantilesSchema.optional(),
      /** Time that the gateway added before a node received the request. */
      ownTimeMs: quantilesSchema.optional(),
      /** Requests in flight at the selected gateway or at all gateways. */
      inFlight: rate.optional(),
    }),
  ),
  /** Present load of each node, averaged over half a minute. Only for the whole fleet. */
  nodes: z.array(z.object({ node: id, requestsPerSecond: rate, tokensPerSecond: rate })).optional(),
  ...knownShape,
});
const keyUseSchema = z.object({
  key: id,
  lastUsedAt: z.string(),
  /** Requests in the present hour and the 23 hours before it. */
  requestsOfDay: count,
});
export const usageAdjustmentSchema = z.object({
  organisation: id,
  period: z.string(),
  /** Sum of all adjustments in the period. */
  adjustedTokens: z.int(),
});
const usageTotalsSchema = z.object({
  organisation: id,
  /** First day of the period. */
  period: z.string(),
  /** Tokens of all completed requests, including those on own nodes and stacks. Adjustments are not included. */
  totalTokens: count,
  /** Tokens that count against the allowance: those completed by the pool, plus adjustments. null for a past period. */
  countedTokens: count.nullable(),
  /** Sum of the manual adjustments. A negative number gave allowance back. */
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
  /** Tokens per period. null if unlimited, 0 without a tier. */
  allowance: count.nullable(),
  /** First days of the present period and of all periods with usage, newest first. */
  periods: z.array(z.string()),
  position,
});
const visitorSumSchema = z.object({
  /** First day, in UTC. */
  from: z.string(),
  /** Completed turns. */
  requests: count,
  promptTokens: count,
  completionTokens: count,
  totalTokens: count,
});
/** Usage of all visitors together. No visitor is named. */
const visitorUsageSchema = z.object({
  visitors: z.object({ day: visitorSumSchema, month: visitorSumSchema }),
  position,
});
const exportQuerySchema = z
  .object({
    organisation: idSchema.optional(),
    /** First day of completion (inclusive) and last day (exclusive). */
    from: daySchema.optional(),
    to: daySchema.optional(),
  })
  .refine(({ from, to }) => from === undefined || to === undefined || from < to, {
    path: ['from'],
    error: 'must be before `to`, which is exclusive',
  });

export const activityRows = {
  'usage.get': operation(readingRoles, 'Usage of an organisation in a period', {
    query: z.object({ organisation: idSchema, period: daySchema.optional() }),
    answer: usageTotalsSchema,
  }),
  'usage.keys': operation(readingRoles, 'Last use of each key, and its requests in the last 24 hours', {
    /** Same query as `GET /keys`, so that both answers have the same keys on a page. */
    query: pageQuerySchema.omit({ at: true, min: true }),
    answer: z.object({
      items: z.array(keyUseSchema),
      /** Cursor of the next page, equal to that of `GET /keys`. */
      next: z.string().optional(),
      position,
    }),
  }),
  'usage.visitors': operation('operator', 'Usage of all visitors together, today and this month', {
    answer: visitorUsageSchema,
  }),
  'usage.export': operation(readingRoles, 'Completed requests, one per line', {
    opens: 'export',
    query: exportQuerySchema,
    mediaType: 'application/x-ndjson',
    answer: usageLineSchema,
  }),
  'organisation.activity': operation(
    readingRoles,
    'Refusals and stack callers of an organisation in the last hour',
    { params: pathSchemas.id, answer: activitySchema },
  ),
  'request.list': operation(readingRoles, 'Requests of all gateways, newest first', {
    opens: 'question',
    query: requestListQuerySchema,
    answer: requestListSchema,
  }),
  'request.tail': operation(readingRoles, 'The newest requests, then each request when it ends', {
    opens: 'follow',
    query: requestTailQuerySchema,
    mediaType: 'text/event-stream',
    answer: requestsMessageSchema,
  }),
  'traffic.get': operation(readingRoles, 'Requests, refusals, tokens and times of the last hour', {
    /** Filters, combined with AND. `gateway` and `node` are for operators only. */
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
