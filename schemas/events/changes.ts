/** Schemas of a change that is released in waves, as contained in the log, the fleet file and the admin API. */
import { z } from 'zod';
import { storedNameSchema } from '../names.ts';

/** Gateways of a wave: their names, or a share of the fleet, selected by a hash of the change's id and the gateway's name. */
export const waveSchema = z.union([
  z.object({ gateways: z.array(storedNameSchema).min(1).max(1000) }),
  z.object({ share: z.number().gt(0).max(1) }),
]);
export type Wave = z.infer<typeof waveSchema>;

export const wavesMax = 20;

/** Thresholds at which a change is withdrawn automatically. */
const watchShape = {
  /** Percentage points by which a wave's refusal rate may exceed both the rate of other gateways and its own rate before. */
  refusals: z.number().min(0).max(100),
  /** Number of internal errors inside a wave at which the change is withdrawn. */
  errors: z.int().min(1),
  /** Minimum number of requests inside a wave. Below it, refusals are not judged, and the next wave does not begin. */
  least: z.int().min(0),
};
export const changeWatchSchema = z.object(watchShape);
export type ChangeWatch = z.infer<typeof changeWatchSchema>;

/** Event of a staged change, as stored in the change's row. The event's own schema has already validated it. */
export const stagedEventSchema = z.object({
  type: z.string().min(1).max(64),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Change that has reached a gateway, with the number of waves that have begun and the total number of waves. */
export const releaseShape = { change: z.string(), wave: z.int(), waves: z.int() };

/** Release settings as people write them, in a fleet file or as command options. */
export const releaseSchema = z.strictObject({
  /** Waves in order. Each is `one`, `10%`, `all`, or gateway names joined by `+`. */
  waves: z.array(z.string().min(1).max(2000)).min(1).max(wavesMax).optional(),
  /** Minimum duration of a wave, such as `2s`, `5m` or `1h`. */
  hold: z.string().max(20).optional(),
  watch: z.strictObject(watchShape).partial().optional(),
});
export type ReleaseTexts = z.infer<typeof releaseSchema>;

const side = z.object({
  /** Number of reporting gateways that the change has reached (inside), or has not (outside). */
  gateways: z.int(),
  requests: z.int(),
  refusals: z.int(),
  /** Number of responses with the type InternalError. */
  errors: z.int(),
  /** Number of requests that no node could answer or whose response was interrupted. */
  nodeFailures: z.int(),
  /** 95th percentile of the time that gateways took before a node received the request, in ms. Absent without requests. */
  ownP95Ms: z.number().optional(),
});
export type ChangeSide = z.infer<typeof side>;

export const changeSchema = z.object({
  id: z.string(),
  state: z.enum(['open', 'completed', 'withdrawn']),
  /** Number of waves that have begun. */
  wave: z.int(),
  waves: z.array(waveSchema),
  holdSeconds: z.int(),
  watch: changeWatchSchema,
  /** Traffic since the current wave began. Absent once the change has ended. */
  figures: z.object({ inside: side, outside: side }).optional(),
  /** Sentence that says what happens next to the change, and when. */
  next: z.string(),
  /** Reason why the change does not advance by itself although the minimum duration of its wave is over. */
  stuck: z.string().optional(),
  /** Reason why the change was withdrawn. */
  reason: z.string().optional(),
  /** Reason why the change can no longer be completed. */
  impossible: z.string().optional(),
  by: z.string(),
  at: z.string(),
});
export type Change = z.infer<typeof changeSchema>;
