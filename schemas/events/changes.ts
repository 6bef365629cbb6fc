/** A change that is released in waves, as the log, the fleet file and the admin API contain it. */
import { z } from 'zod';
import { storedNameSchema } from '../names.ts';

/** Gateways by name or as a share of the fleet. A hash of the change's id and the gateway's name decides membership. */
export const waveSchema = z.union([
  z.object({ gateways: z.array(storedNameSchema).min(1).max(1000) }),
  z.object({ share: z.number().gt(0).max(1) }),
]);
export type Wave = z.infer<typeof waveSchema>;

export const wavesMax = 20;

/** Thresholds at which a change is withdrawn automatically. */
const watchShape = {
  /** Percentage points by which the wave's refusal rate may exceed the rate outside and its own earlier rate. */
  refusals: z.number().min(0).max(100),
  /** Number of internal errors inside the wave that withdraws the change. */
  errors: z.int().min(1),
  /** Minimum number of requests inside the wave. With fewer, refusals are not judged and the next wave does not begin. */
  least: z.int().min(0),
};
export const changeWatchSchema = z.object(watchShape);
export type ChangeWatch = z.infer<typeof changeWatchSchema>;

/** Event of a change, as the change's row contains it. The event's own schema has already validated it. */
export const stagedEventSchema = z.object({
  type: z.string().min(1).max(64),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Change that has reached a gateway, with its progress. */
export const releaseShape = { change: z.string(), wave: z.int(), waves: z.int() };

/** Release settings as people write them, in a fleet file or as command options. */
export const releaseSchema = z.strictObject({
  /** Each wave is `one`, `10%`, `all`, or gateway names joined by `+`. */
  waves: z.array(z.string().min(1).max(2000)).min(1).max(wavesMax).optional(),
  /** Duration such as `2s`, `5m` or `1h`. */
  hold: z.string().max(20).optional(),
  watch: z.strictObject(watchShape).partial().optional(),
});
export type ReleaseTexts = z.infer<typeof releaseSchema>;

const side = z.object({
  /** Number of reporting gateways. */
  gateways: z.int(),
  requests: z.int(),
  refusals: z.int(),
  /** Responses with the type InternalError. */
  errors: z.int(),
  /** Requests for which no node could answer or whose answer was interrupted. */
  nodeFailures: z.int(),
  /** 95th percentile of the gateways' own time before a node got the request, in ms; absent without requests. */
  ownP95Ms: z.number().optional(),
});
export type ChangeSide = z.infer<typeof side>;

/** Change as the admin API returns it. */
export const changeSchema = z.object({
  id: z.string(),
  state: z.enum(['open', 'completed', 'withdrawn']),
  /** Number of waves that the change has reached. */
  wave: z.int(),
  waves: z.array(waveSchema),
  holdSeconds: z.int(),
  watch: changeWatchSchema,
  /** Traffic since the present wave began. Absent once the change is over. */
  figures: z.object({ inside: side, outside: side }).optional(),
  /** Next step and its time, as a sentence. */
  next: z.string(),
  /** Reason why the change does not advance automatically although its hold is over. */
  stuck: z.string().optional(),
  /** Reason for the withdrawal. */
  reason: z.string().optional(),
  /** Reason why the change can no longer be completed. */
  impossible: z.string().optional(),
  by: z.string(),
  at: z.string(),
});
export type Change = z.infer<typeof changeSchema>;
