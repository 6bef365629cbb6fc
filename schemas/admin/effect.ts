/** Request and response of the preview that shows a command's effect before the command is written. */
import { z } from 'zod';
import { fleetSchema } from '../events/fleet.ts';
import { idSchema } from '../names.ts';
import { requestIdSchema } from '../records/decisions.ts';
import { rowChangeSchema } from './admin-history.ts';

/** Either a command as a client would send it, with its path below the admin API's prefix, or a fleet file. */
export const effectRequestSchema = z.union([
  z.strictObject({
    method: z.enum(['POST', 'PUT', 'PATCH', 'DELETE']),
    path: z.string().min(1).max(500),
    body: z.unknown().optional(),
  }),
  z.strictObject({ fleet: fleetSchema, prune: z.boolean().optional() }),
]);
export type EffectRequest = z.output<typeof effectRequestSchema>;

const count = z.int().min(0);

/** Outcome of a request: `served pool`, `served stack`, `served own`, or `STATUS Type` for a refusal. */
const answerSchema = z.string();

const recordedGroupSchema = z.object({
  /** Organisation that sent the requests. Absent for visitors. */
  organisation: idSchema.optional(),
  /** Host that received the requests: `shared` or a stack's id. */
  host: z.string(),
  /** Requested model. Absent if the requested name is not a known model. */
  model: z.string().optional(),
  /** Requested operation. Absent for chat completions. */
  operation: z.string().optional(),
  from: answerSchema,
  to: answerSchema,
  /** Number of requests in the group. If only a sample was decided again, all requests that the sample stands for count. */
  requests: count,
  /** Ids of some of the requests, for `headgate explain --request`. Empty if all are known only from traffic reports. */
  examples: z.array(requestIdSchema),
});

const loweredSchema = z.object({
  /** Organisation whose limit is lowered. Absent if the limit is on visitors or several organisations are affected. */
  organisation: idSchema.optional(),
  organisations: count,
  /** Set if the limit is on visitors: on all of them together if `what` begins with `total.`, otherwise on each one. */
  visitors: z.literal(true).optional(),
  /** Name of the tier's field that contains the limit. */
  what: z.string(),
  /** Limit before the command, or null if there was none. */
  from: z.number().nullable(),
  to: z.number(),
  /** Highest use by any one subject in the last hour. Absent if unknown. */
  peak: z.number().optional(),
});

export const effectSchema = z.object({
  /** Position of the commit in whose state the effect was computed. */
  position: count,
  /**
   * Effect on the last hour's requests that the present state would serve. Each request is decided again with the command's
   * events applied. The requests come from the gateways' records or, for a gateway that does not respond, from its traffic
   * reports. Absent if the gateways were not asked.
   */
  recorded: z
    .object({
      /** Start of the time range. It is less than an hour ago if gateways had too many requests to read. */
      since: z.string(),
      /** Number of requests that were decided again. If it is less than `asked`, each stands for several similar requests. */
      decided: count,
      /** Total number of requests, including those that only traffic reports contain. */
      asked: count,
      differ: count,
      /** Number of requests that are served now but would be refused after the command. */
      refused: count,
      /** Organisations none of whose requests would be served any more. */
      lost: z.array(idSchema),
      /** Gateways that did not respond or do not store decisions, so their traffic reports are used instead. */
      gatewaysSilent: z.array(z.string()),
      /** Silent gateways without a readable traffic report, so their requests are unknown. Absent if there are none. */
      gatewaysUnseen: z.array(z.string()).optional(),
      groups: z.array(recordedGroupSchema),
      /** Set if there are more groups than `groups` contains. */
      more: z.literal(true).optional(),
    })
    .optional(),
  limits: z.array(loweredSchema),
  /** Rows that the command would change. Returned only to operators, and only if no request was served in the last hour. */
  changes: z.array(rowChangeSchema).optional(),
});
export type Effect = z.output<typeof effectSchema>;
export type LoweredLimit = z.output<typeof loweredSchema>;
export type RecordedGroup = z.output<typeof recordedGroupSchema>;
