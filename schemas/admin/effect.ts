/** Request and answer of the admin API's preview, which shows the effect of a command before it is written. */
import { z } from 'zod';
import { fleetSchema } from '../events/fleet.ts';
import { idSchema } from '../names.ts';
import { requestIdSchema } from '../records/decisions.ts';
import { rowChangeSchema } from './admin-history.ts';

/** Either a command as it would be sent (method, path below the admin API's prefix, and body) or a fleet file. */
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

/** `served pool`, `served stack`, `served own`, or `STATUS Type`. */
const answerSchema = z.string();

const recordedGroupSchema = z.object({
  /** Organisation of the requests. Absent for visitors. */
  organisation: idSchema.optional(),
  /** `shared`, or a stack's id. */
  host: z.string(),
  /** Absent if the requested name is not a known model. */
  model: z.string().optional(),
  /** Absent for chat. */
  operation: z.string().optional(),
  from: answerSchema,
  to: answerSchema,
  /** Number of requests, counted like `asked`. */
  requests: count,
  /** Ids of some of the requests, for `headgate explain --request`. Empty if only traffic reports contain them. */
  examples: z.array(requestIdSchema),
});

const loweredSchema = z.object({
  /** Absent for visitors and if several organisations are affected. */
  organisation: idSchema.optional(),
  organisations: count,
  /** Set for a limit on visitors: of all together if `what` begins with `total.`, otherwise of each. */
  visitors: z.literal(true).optional(),
  /** Name of the tier's field. */
  what: z.string(),
  /** null if there was no limit. */
  from: z.number().nullable(),
  to: z.number(),
  /** Highest use by one subject in the last hour. Absent if unknown. */
  peak: z.number().optional(),
});

export const effectSchema = z.object({
  /** Commit after which the effect was computed. */
  position: count,
  /**
   * Requests of the last hour that are served on the present state, decided again after the events. They come from the
   * gateways' records or, without an answer, their traffic reports. Absent if not asked.
   */
  recorded: z
    .object({
      /** Start of the covered time. Less than an hour ago if gateways had too many requests to read. */
      since: z.string(),
      /** Requests decided again. If fewer than `asked`, each represents others of its organisation, host and model. */
      decided: count,
      /** Number of all requests, as far as gateways answered. */
      asked: count,
      differ: count,
      /** Number of requests that were served before and would be refused after. */
      refused: count,
      /** Organisations that would not be served at all any more. */
      lost: z.array(idSchema),
      /** Gateways that did not answer or do not store decisions. Their traffic reports count instead. */
      gatewaysSilent: z.array(z.string()),
      /** Silent gateways that also have no readable report, so that their requests are not known. Absent if there are none. */
      gatewaysUnseen: z.array(z.string()).optional(),
      groups: z.array(recordedGroupSchema),
      /** Set if there are more groups than listed. */
      more: z.literal(true).optional(),
    })
    .optional(),
  /** Limits that the command lowers. */
  limits: z.array(loweredSchema),
  /** Rows that the command changes. Only for operators, and only if no request was served in the last hour. */
  changes: z.array(rowChangeSchema).optional(),
});
export type Effect = z.output<typeof effectSchema>;
export type LoweredLimit = z.output<typeof loweredSchema>;
export type RecordedGroup = z.output<typeof recordedGroupSchema>;
