/** What the admin API answers about the use of keys, the turns of visitors and the last hour of an organisation. */
import { z } from 'zod';

const id = z.string();
const moment = z.string();
const position = z.int().min(0);
const count = z.int().min(0);

/** Of the last hour, as far as the gateways have it. */
const activitySchema = z.object({
  since: moment,
  refusals: z.array(
    z.object({
      status: z.int(),
      type: z.string(),
      requests: count,
      lastAt: moment,
      /** The newest of them, for `headgate explain --request`. */
      lastRequest: z.string(),
    }),
  ),
  callers: z.array(
    z.object({ stack: id, surface: z.enum(['openai', 'anthropic']), key: id, requests: count }),
  ),
  /** Gateways that did not answer, so what they have is missing. */
  unanswered: z.array(z.string()),
  /** There was more than is read at once. */
  partial: z.literal(true).optional(),
  position,
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
};
