/**
 * What each process reports of itself on `headgate.status`: how far it is, what its state's digest is, how fresh it can
 * prove to be. The reader judges; a process never says of itself that it is well.
 */
import { z } from 'zod';
import { liveNodeSchema } from './node-messages.ts';

export const statusSchema = z.object({
  v: z.literal(1),
  name: z.string().min(1).max(200),
  kind: z.enum(['gateway', 'control-plane']),
  /** Wall clock of the reporter, for people only: no two clocks are compared. */
  at: z.string().max(40),
  log: z.string().nullable(),
  /** `seq` of the last commit folded. */
  applied: z.int().min(0),
  digest: z.string().max(64),
  foldVersion: z.int(),
  /** Age of the last proof of freshness when this was written, seconds; null before the first. */
  freshSeconds: z.number().nullable(),
  stalePolicy: z.enum(['fence', 'serve']).optional(),
  /** Why it does not follow the log now. */
  halted: z.string().max(500).optional(),
  /** Of a control plane: fingerprint of the key with which it signs. */
  signer: z.string().max(64).optional(),
  /** Of a control plane: the nodes whose agents report to it. */
  nodes: z.record(z.string().max(64), liveNodeSchema).optional(),
  /** Its rows are not what their digest says: no key is accepted from them. */
  diverged: z.boolean().optional(),
  /** The process ended in good order and is not to be waited for. */
  stopped: z.boolean().optional(),
});

export type StatusReport = z.infer<typeof statusSchema>;
export type StalePolicy = NonNullable<StatusReport['stalePolicy']>;
