/**
 * Line of the decision journal: a gateway's decision on one request, with the facts that led to it. It never contains an
 * address, a prompt, a header or a key's value, so it can be shown and stored.
 */
import { z } from 'zod';
import { operationKinds } from '../api/operations.ts';

export const requestIdSchema = z.string().regex(/^req_[0-9a-f]{32}$/);

const count = z.number().min(0);
const ms = z.number().min(0).optional();

/** State of one limit when a request was compared with it. Without `elsewhere`, each gateway counts the limit by itself. */
const limitUseSchema = z.object({
  /** Amount of the limit that the deciding gateway itself has counted as used. */
  here: count,
  /** Amount used at other gateways, according to the records that the deciding gateway had read from them. */
  elsewhere: count.optional(),
  /** Amount that other gateways use or have reserved. */
  held: count.optional(),
  /** Amount that the deciding gateway could still have admitted at that moment. */
  room: count,
});
export type SeenLimit = z.infer<typeof limitUseSchema>;
const limitUses = {
  requests: limitUseSchema.optional(),
  concurrency: limitUseSchema.optional(),
};

/** Reasons why a request had no valid key. */
export const keyFaults = [
  'missing',
  'two Authorization headers',
  'malformed',
  'unknown',
  'two different keys',
] as const;

/** Phase in which a request's response was decided. Only responses of the phase `admission` follow from rules alone. */
const decisionStages = ['admission', 'http', 'body', 'shape', 'usage', 'answer'] as const;

export const decisionRecordSchema = z.object({
  v: z.literal(1),
  req: requestIdSchema,
  gateway: z.string().max(200),
  /** Gateway's wall clock at the decision, in ms since 1970. */
  at: z.int().min(0),
  /** Number (`seq`) of the last commit in the state that the gateway used. */
  position: z.int().min(0),
  /** Open change whose rows the decision used. Absent if the decision used none. */
  change: z.string().max(64).optional(),
  host: z.enum(['shared', 'stack', 'unknown']),
  stack: z.string().max(64).optional(),
  operation: z.enum(operationKinds),
  organisation: z.string().max(64).optional(),
  key: z.string().max(64).optional(),
  header: z.enum(['authorization', 'x-api-key']).optional(),
  /** Reason why no key was found. Absent if one was found. */
  fault: z.enum(keyFaults).optional(),
  /** Whether the headers contained something that may be a key, although no key was found. */
  carried: z.boolean().optional(),
  visitor: z.string().max(100).optional(),
  /** Requested model. Absent if the requested name is not a known model, because the text may then be anything. */
  model: z.string().max(200).optional(),
  /** Number of prompt tokens compared with the limits, which is an upper bound. `usage` contains the billed tokens. */
  promptTokensMax: count.optional(),
  /** Former name of `promptTokensMax`, which version 0.2.0 writes and requires. */
  promptTokens: count.optional(),
  /** Lower bound on the number of prompt tokens. Absent if it was not determined. */
  promptTokensLeast: count.optional(),
  /** Source of the number of prompt tokens: an upper bound from the prompt's bytes (`bound`), or a node's count (`node`). */
  counted: z.enum(['bound', 'node']),
  maxTokens: count.optional(),
  /** Counters as they were before this request. `windowUsed` and `inFlight` are the limit minus the remaining room. */
  counters: z.object({
    windowUsed: count,
    inFlight: count,
    /** State of each limit. Absent if there was no such limit, or if an earlier version recorded the decision. */
    ...limitUses,
    poolTokens: count,
    freeTurns: count,
    /** Number of turns that the visitor's network had taken on the day of the request. */
    networkTurns: count.optional(),
    visitors: z.object({ windowUsed: count, inFlight: count, tokens: count, ...limitUses }).optional(),
  }),
  fenced: z.boolean().optional(),
  outboxFull: z.boolean().optional(),
  stage: z.enum(decisionStages),
  served: z.boolean(),
  /** HTTP status of the response. Absent if no header was sent. */
  status: z.int().optional(),
  type: z.string().max(64).optional(),
  message: z.string().max(500).optional(),
  /** Cause of the refusal, more detailed than its type. Only operators see it. */
  reason: z.string().max(200).optional(),
  retryAfterSeconds: z.int().optional(),
  capacity: z.enum(['own', 'pool', 'stack']).optional(),
  node: z.string().max(64).optional(),
  outcome: z.string().max(40).optional(),
  /** Party that ended the request early, with the reason. */
  finish: z.string().max(200).optional(),
  /** Billed tokens of a completed request. */
  usage: z.object({ promptTokens: count, completionTokens: count }).optional(),
  /** Times in ms since the request line arrived, one for each phase that the request reached. */
  ms: z.object({ accepted: ms, read: ms, shaped: ms, decided: ms, sent: ms, begun: ms, end: count }),
});

export type DecisionRecord = z.infer<typeof decisionRecordSchema>;

/** Returns `promptTokensMax` from a record of any version. */
export function readPromptTokensMax({
  promptTokensMax,
  promptTokens = 0,
}: Pick<DecisionRecord, 'promptTokensMax' | 'promptTokens'>): number {
  return promptTokensMax ?? promptTokens;
}
