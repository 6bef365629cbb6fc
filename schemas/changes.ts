/** A change that is released in waves: what the log, the fleet file and the admin API have of it. */
import { z } from 'zod';
import { storedNameSchema } from './names.ts';

/** Gateways by name, or a share of them: a gateway is in it or not by a hash of the change and its name. */
export const waveSchema = z.union([
  z.strictObject({ gateways: z.array(storedNameSchema).min(1).max(1000) }),
  z.strictObject({ share: z.number().gt(0).max(1) }),
]);
export type Wave = z.infer<typeof waveSchema>;

export const wavesMax = 20;
export const holdSecondsMax = 7 * 24 * 3600;

/** What withdraws a change. */
export const changeWatchSchema = z.strictObject({
  /** By so many percentage points the share of refusals in the wave may be above that outside, and above its own before. */
  refusals: z.number().min(0).max(100),
  /** So many internal errors in the wave. */
  errors: z.int().min(1),
  /** Before so many requests in the wave nothing is concluded from refusals, and no further wave begins. */
  least: z.int().min(0),
});
export type ChangeWatch = z.infer<typeof changeWatchSchema>;

/** An event of a change as it stands in its row, read by its schema before. */
export const stagedEventSchema = z.object({
  type: z.string().min(1).max(64),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});
