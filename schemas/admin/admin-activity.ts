/** Admin API operations that return usage, key use, visitors' turns, traffic of the last hour, and single requests. */
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
  /** Id of the newest request that was refused in this way, for use with `headgate explain --request`. */
  lastRequest: z.string(),
});
/** Fields of each response about the last hour that say whether its data are complete. */
const knownShape = {
  since: moment,
  /** Gateways without data for the last hour, either because they are silent or because their version reports no requests. */
  unanswered: z.array(z.string()),
  /** Set if a gateway had so many models or keys that it reported some of them only as a sum. */
  partial: z.literal(true).optional(),
  position,
};
/** Activity in the last hour, from the reports that gateways publish every ten seconds. */
const activitySchema = z.object({
  refusals: z.array(refusalSchema),
  callers: z.array(
    z.object({ stack: id, surface: z.enum(['openai', 'anthropic']), key: id, requests: count }),
  ),
  ...knownShape,
});
/** Most frequent refusals of the last hour. `organisation` is absent if the request did not identify one. */
const fleetActivitySchema = z.object({
  refusals: z.array(refusalSchema.extend({ organisation: id.optional() })),
  ...knownShape,
});
const rate = z.number().min(0);
/** 50th and 95th percentiles in ms. Values above the largest bound of the gateways' histograms are reported as that bound. */
const quantilesSchema = z.object({ p50: rate, p95: rate });
const trafficSchema = z.object({
  stepSeconds: z.int(),
  /** End of the last time step. Later traffic is omitted, because not all gateways have reported it yet. */
  until: moment,
  /** Time steps, oldest first. Steps without traffic are omitted. */
  steps: z.array(
    z.object({
      /** Time at which the step ends. */
      at: moment,
      requestsPerSecond: rate,
      /** Refusals per second, by refusal type. */
      refusedPerSecond: z.record(z.string(), rate),
      /** Prompt and completion tokens of completed requests, per second. */
      tokensPerSecond: rate,
      /** Time from the arrival of the request line to the first byte of a streamed response. */
      firstTokenMs: quantilesSchema.optional(),
      /** Time that the gateway itself took to handle a request before it sent the request to a node. */
      ownTimeMs: quantilesSchema.optional(),
      /** Number of requests in flight at the selected gateway, or at all gateways if none is selected. */
      inFlight: rate.optional(),
    }),
  ),
  /** Current load of each node, averaged over half a minute. Absent if the request filters the traffic. */
  nodes: z.array(z.object({ node: id, requestsPerSecond: rate, tokensPerSecond: rate })).optional(),
  ...knownShape,
});
const keyUseSchema = z.object({
  key: id,
  lastUsedAt: z.string(),
  /** Number of requests in the current hour and the 23 hours before it. */
  requestsOfDay: count,
});
export const usageAdjustmentSchema = z.object({
  organisation: id,
  period: z.string(),
  /** Sum of all manual adjustments of the organisation's usage in the period, in tokens. */
  adjustedTokens: z.int(),
});
const usageTotalsSchema = z.object({
  organisation: id,
  /** First day of the billing period that the totals cover. */
  period: z.string(),
  /** Tokens of all completed requests, whether the pool, a stack or an own node served them. Excludes manual adjustments. */
  totalTokens: count,
  /** Tokens that count against the allowance: those served by the pool, plus manual adjustments. Null for a past period. */
  countedTokens: count.nullable(),
  /** Sum of the manual adjustments, in tokens. A negative sum means that allowance was given back. */
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
  /** Tokens that the tier allows per period. Null means unlimited. Without a tier, the allowance is 0. */
  allowance: count.nullable(),
  /** First days of the current period and of all periods with usage, newest first. */
  periods: z.array(z.string()),
  position,
});
const visitorSumSchema = z.object({
  /** First UTC day that the sums cover. */
  from: z.string(),
  /** Number of turns that visitors completed. */
  requests: count,
  promptTokens: count,
  completionTokens: count,
  totalTokens: count,
});
/** Combined usage of all visitors. The response does not identify any visitor. */
const visitorUsageSchema = z.object({
  visitors: z.object({ day: visitorSumSchema, month: visitorSumSchema }),
  position,
});
const exportQuerySchema = z
  .object({
    organisation: idSchema.optional(),
    /** Range of days on which the requests completed. `from` is inclusive and `to` is exclusive. */
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
    /** Takes the same query as `GET /keys`, so that the same page of both lists contains the same keys. */
    query: pageQuerySchema.omit({ at: true, min: true }),
    answer: z.object({
      items: z.array(keyUseSchema),
      /** Cursor for the next page, identical to the cursor that `GET /keys` returns. */
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
    /** Filters on the traffic, combined with AND. Only operators may use `gateway` and `node`. */
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
