/** A change that is released in waves: what the log, the fleet file and the admin API have of it. */
import { z } from 'zod';
import { storedNameSchema } from '../names.ts';

/** Gateways by name, or a share of them: a gateway is in it or not by a hash of the change and its name. */
export const waveSchema = z.union([
  z.object({ gateways: z.array(storedNameSchema).min(1).max(1000) }),
  z.object({ share: z.number().gt(0).max(1) }),
]);
export type Wave = z.infer<typeof waveSchema>;

export const wavesMax = 20;

/** What withdraws a change. */
const watchShape = {
  /** By so many percentage points the share of refusals in the wave may be above that outside, and above its own before. */
  refusals: z.number().min(0).max(100),
  /** So many internal errors in the wave. */
  errors: z.int().min(1),
  /** Before so many requests in the wave nothing is concluded from refusals, and no further wave begins. */
  least: z.int().min(0),
};
export const changeWatchSchema = z.object(watchShape);
export type ChangeWatch = z.infer<typeof changeWatchSchema>;

/** An event of a change as it stands in its row, read by its schema before. */
export const stagedEventSchema = z.object({
  type: z.string().min(1).max(64),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Which change gateways have that it has reached, and how far it is. */
export const releaseShape = { change: z.string(), wave: z.int(), waves: z.int() };

/** How a change is released, as people write it: in a fleet file, and as options of a command. */
export const releaseSchema = z.strictObject({
  /** `one`, `10%`, `all`, or names of gateways with + between them. */
  waves: z.array(z.string().min(1).max(2000)).min(1).max(wavesMax).optional(),
  /** `2s`, `5m` or `1h`. */
  hold: z.string().max(20).optional(),
  watch: z.strictObject(watchShape).partial().optional(),
});
export type ReleaseTexts = z.infer<typeof releaseSchema>;

const side = z.object({
  /** How many that report. */
  gateways: z.int(),
  requests: z.int(),
  refusals: z.int(),
  /** InternalErrors. */
  errors: z.int(),
  /** No node could answer, or the answer ended before its end. */
  nodeFailures: z.int(),
  /** What gateways added before a node had the request: 95 of 100 had no more. Absent: no node has had one. */
  ownP95Ms: z.number().optional(),
});
export type ChangeSide = z.infer<typeof side>;

/** A change as the admin API has it. */
export const changeSchema = z.object({
  id: z.string(),
  state: z.enum(['open', 'completed', 'withdrawn']),
  /** So many waves are in it. */
  wave: z.int(),
  waves: z.array(waveSchema),
  holdSeconds: z.int(),
  watch: changeWatchSchema,
  /** Since the present wave began; absent of one that is over. */
  figures: z.object({ inside: side, outside: side }).optional(),
  /** What happens next, and when. */
  next: z.string(),
  /** Why it does not continue by itself, though its hold is over. */
  stuck: z.string().optional(),
  /** Of a withdrawal. */
  reason: z.string().optional(),
  /** Why it cannot be completed any more. */
  impossible: z.string().optional(),
  by: z.string(),
  at: z.string(),
});
export type Change = z.infer<typeof changeSchema>;
