/**
 * One line of the decision journal: what a gateway decided about one request, and the facts that it decided on. No address,
 * no prompt, no header and no key value is part of it, so a line can be shown and kept.
 */
import { z } from 'zod';
import { operationKinds } from '../api/operations.ts';

export const requestIdSchema = z.string().regex(/^req_[0-9a-f]{32}$/);

const count = z.number().min(0);
const ms = z.number().min(0).optional();

/** Of a limit, what counted when it was compared. Without `elsewhere` each gateway counts it alone. */
const limitUseSchema = z.object({
  /** Counted by the gateway that decided. */
  here: count,
  /** Used at other gateways, as far as this one had read it. */
  elsewhere: count.optional(),
  /** What other gateways used or kept for themselves. */
  held: count.optional(),
  /** What the gateway that decided could still admit. */
  room: count,
});
export type SeenLimit = z.infer<typeof limitUseSchema>;
const limitUses = {
  requests: limitUseSchema.optional(),
  concurrency: limitUseSchema.optional(),
};

/** Causes of a refusal because no key was found. */
export const keyFaults = [
  'missing',
  'two Authorization headers',
  'malformed',
  'unknown',
  'two different keys',
] as const;

/** Which part of the request's way gave the answer. Only `admission` is decided by rules alone. */
const decisionStages = ['admission', 'http', 'body', 'shape', 'usage', 'answer'] as const;

export const decisionRecordSchema = z.object({
  v: z.literal(1),
  req: requestIdSchema,
  gateway: z.string().max(200),
  /** Wall clock of the gateway at the decision, ms since 1970. */
  at: z.int().min(0),
  /** `seq` of the commit that the gateway's state reflected. */
  position: z.int().min(0),
  /** The open change whose rows it was decided on, where it read one. */
  change: z.string().max(64).optional(),
  host: z.enum(['shared', 'stack', 'unknown']),
  stack: z.string().max(64).optional(),
  operation: z.enum(operationKinds),
  /** Of the key. */
  organisation: z.string().max(64).optional(),
  key: z.string().max(64).optional(),
  header: z.enum(['authorization', 'x-api-key']).optional(),
  /** Why no key was found. */
  fault: z.enum(keyFaults).optional(),
  /** The headers carried something that may be a key. */
  carried: z.boolean().optional(),
  visitor: z.string().max(100).optional(),
  /** Absent: a name that nothing in the state has, which may be anything. */
  model: z.string().max(200).optional(),
  /** Upper bound of the prompt's tokens, which the limits compared; `usage` contains the tokens that are billed. */
  promptTokensMax: count.optional(),
  /** Former name of `promptTokensMax`, which version 0.2.0 writes and requires. */
  promptTokens: count.optional(),
  /** Bound from below, where it was asked for. */
  promptTokensLeast: count.optional(),
  /** How the prompt's tokens are known. `bound`: an upper bound from the prompt's bytes. `node`: a node counted them. */
  counted: z.enum(['bound', 'node']),
  maxTokens: count.optional(),
  /** As they were before this request. `windowUsed` and `inFlight` are what was compared: a limit less its room. */
  counters: z.object({
    windowUsed: count,
    inFlight: count,
    /** Absent where there was no limit, or the gateway was of an earlier version. */
    ...limitUses,
    poolTokens: count,
    freeTurns: count,
    /** Of a visitor's network on the day. */
    networkTurns: count.optional(),
    /** Of all visitors together. */
    visitors: z.object({ windowUsed: count, inFlight: count, tokens: count, ...limitUses }).optional(),
  }),
  fenced: z.boolean().optional(),
  outboxFull: z.boolean().optional(),
  stage: z.enum(decisionStages),
  served: z.boolean(),
  /** Status of the answer; absent if no head was sent. */
  status: z.int().optional(),
  type: z.string().max(64).optional(),
  message: z.string().max(500).optional(),
  /** For operators: finer than the type. */
  reason: z.string().max(200).optional(),
  retryAfterSeconds: z.int().optional(),
  capacity: z.enum(['own', 'pool', 'stack']).optional(),
  node: z.string().max(64).optional(),
  outcome: z.string().max(40).optional(),
  /** Who ended the request early, and why. */
  finish: z.string().max(200).optional(),
  /** What is billed of a request that completed. */
  usage: z.object({ promptTokens: count, completionTokens: count }).optional(),
  /** Since the request line, ms. */
  ms: z.object({ accepted: ms, read: ms, shaped: ms, decided: ms, sent: ms, begun: ms, end: count }),
});

export type DecisionRecord = z.infer<typeof decisionRecordSchema>;

/** Reads `promptTokensMax` from records of any version. */
export function promptTokensMaxOf({
  promptTokensMax,
  promptTokens = 0,
}: Pick<DecisionRecord, 'promptTokensMax' | 'promptTokens'>): number {
  return promptTokensMax ?? promptTokens;
}
