/** The effect of a command before it is written, as the admin API is asked for it and answers with it. */
import { z } from 'zod';
import { fleetSchema } from '../events/fleet.ts';
import { idSchema } from '../names.ts';
import { requestIdSchema } from '../records/decisions.ts';
import { rowChangeSchema } from './admin-history.ts';

/** A command as it would be sent: its method, its path below the prefix of the admin API, and its body. Or a fleet file. */
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
  /** Organisation of the requests; absent for visitors. */
  organisation: idSchema.optional(),
  /** `shared`, or a stack. */
  host: z.string(),
  /** Absent: a name that nothing in the state has. */
  model: z.string().optional(),
  /** Absent: chat. */
  operation: z.string().optional(),
  from: answerSchema,
  to: answerSchema,
  /** As `asked` counts. */
  requests: count,
  /** Ids of some of the requests, for `headgate explain --request`. Empty if only traffic reports contain them. */
  examples: z.array(requestIdSchema),
});

const loweredSchema = z.object({
  /** Absent: more than one, or visitors. */
  organisation: idSchema.optional(),
  organisations: count,
  /** It is a limit of visitors: of one, or with `total.` of all together. */
  visitors: z.literal(true).optional(),
  /** The field of the tier. */
  what: z.string(),
  /** null: there is no limit. */
  from: z.number().nullable(),
  to: z.number(),
  /** What one of them used of it in the last hour at most; absent: nothing is known. */
  peak: z.number().optional(),
});

export const effectSchema = z.object({
  /** The effect holds for the state after this commit. */
  position: count,
  /**
   * Requests that were served in the last hour and are served on the present state, decided again after the events. They are taken
   * from the gateways' records, or from the traffic reports of gateways that did not answer. Absent if the gateways were not asked.
   */
  recorded: z
    .object({
      /** Start of the time that the requests cover; less than an hour ago if gateways had too many to read. */
      since: z.string(),
      /** So many were decided again. Where that are not all, each stands for others of its organisation, host and model. */
      decided: count,
      /** All of them, as far as gateways answered. */
      asked: count,
      differ: count,
      /** Served before and refused after. */
      refused: count,
      /** Organisations of which nothing would be served. */
      lost: z.array(idSchema),
      /** Gateways that did not answer or do not keep decisions. Their reports count instead. */
      gatewaysSilent: z.array(z.string()),
      /** Silent gateways that also have no readable report, so that their requests are not known. Absent if there are none. */
      gatewaysUnseen: z.array(z.string()).optional(),
      groups: z.array(recordedGroupSchema),
      /** There are more groups than are listed. */
      more: z.literal(true).optional(),
    })
    .optional(),
  /** Limits that are lower after it. */
  limits: z.array(loweredSchema),
  /** Rows that the command changes. Present for operators, if no request was served in the last hour. */
  changes: z.array(rowChangeSchema).optional(),
});
export type Effect = z.output<typeof effectSchema>;
export type LoweredLimit = z.output<typeof loweredSchema>;
export type RecordedGroup = z.output<typeof recordedGroupSchema>;
