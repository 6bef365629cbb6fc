/** What the admin API answers about the use of keys, the turns of visitors and the last hour of an organisation. */
import { z } from 'zod';

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
/** How much of the last hour was read. */
const readShape = {
  since: moment,
  /** Gateways that did not answer, so what they have is missing. */
  unanswered: z.array(z.string()),
  /** There was more than is read at once. */
  partial: z.literal(true).optional(),
  position,
};
/** Of the last hour, as far as the gateways have it. */
const activitySchema = z.object({
  refusals: z.array(refusalSchema),
  callers: z.array(
    z.object({ stack: id, surface: z.enum(['openai', 'anthropic']), key: id, requests: count }),
  ),
  ...readShape,
});
/** Of the last hour and all organisations, the most frequent first; of callers without one, where nothing named it. */
const fleetActivitySchema = z.object({
  refusals: z.array(refusalSchema.extend({ organisation: id.optional() })),
  ...readShape,
});
const keyUseSchema = z.object({
  key: id,
  lastUsedAt: z.string(),
  /** In the present hour and the 23 before it. */
  requestsOfDay: count,
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
export const activityResponses = {
  'GET /usage/visitors': visitorUsageSchema,
  'GET /usage/keys': z.object({ items: z.array(keyUseSchema), position }),
  'GET /organisations/:id/activity': activitySchema,
  'GET /activity': fleetActivitySchema,
};
