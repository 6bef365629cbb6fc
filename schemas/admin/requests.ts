/**
 * Ended requests as people follow them, one row each, with its verdict. The command line, the admin API and the console show
 * the same rows, which never contain prompts or answers.
 */
import { z } from 'zod';
import { type RefusalType, refusalKinds } from '../api/refusals.ts';
import { slowerThanMs } from '../durations.ts';
import { idSchema, modelIdSchema } from '../names.ts';
import { requestIdSchema } from '../records/decisions.ts';
import { enderSchema, outcomeSchema } from '../records/verdict.ts';
import { momentInQuery, numberInQuery } from './admin-row.ts';

const count = z.int().min(0);
const ms = z.number().min(0);

export const requestRowSchema = z.object({
  request: requestIdSchema,
  /** Time of the decision by the gateway's clock. */
  at: z.string(),
  gateway: z.string(),
  /** Organisation of the key. Absent for visitors and unknown keys. */
  organisation: z.string().optional(),
  key: z.string().optional(),
  /** Present name of the key. */
  keyName: z.string().optional(),
  /** True for a visitor's request. */
  visitor: z.literal(true).optional(),
  /** `shared`, the id of a stack, or `unknown`. Members also see `unknown` for stacks of other organisations. */
  host: z.string(),
  operation: z.string(),
  /** Absent for listings and for names of no model, which are not stored anywhere. */
  model: z.string().optional(),
  verdict: outcomeSchema,
  /** Status of the answer. Absent if no header was sent. */
  status: z.int().optional(),
  /** Type of a refusal. */
  type: z.string().optional(),
  /** Cause of a refusal, more detailed than its type. For operators only. */
  cause: z.string().optional(),
  /** The party that ended the request early. */
  endedBy: enderSchema.optional(),
  /** For operators only. */
  node: z.string().optional(),
  promptTokens: count.optional(),
  completionTokens: count.optional(),
  /** Time from the request line to the first byte of a node's answer. */
  firstTokenMs: ms.optional(),
  durationMs: ms,
  /** Position of the state that the decision used. */
  position: count,
});
export type RequestRow = z.infer<typeof requestRowSchema>;

/** Page of requests, newest first by the time at which they ended. */
export const requestListSchema = z.object({
  items: z.array(requestRowSchema),
  /** Opaque cursor of the next page, which has older requests. Absent on the last page. */
  next: z.string().optional(),
  /** Gateways whose requests are missing, because they did not answer or do not store decisions. */
  silent: z.array(z.string()),
});
export type RequestList = z.infer<typeof requestListSchema>;

/**
 * `data` of each `requests` event in the live stream (text/event-stream). The first is like the list, with the newest `limit`
 * requests and `next`; later ones contain the requests ended since, newest first. A reopened stream starts again, so identify
 * rows by `request`. `event: ended` means that the session has ended.
 */
export const requestsMessageSchema = requestListSchema.extend({
  /** Number of ended requests that the stream left out because there were more than it sends. The list contains them. */
  missed: count.optional(),
});
export type RequestsMessage = z.infer<typeof requestsMessageSchema>;

const refusalTypes = Object.keys(refusalKinds) as [RefusalType, ...RefusalType[]];

/** Filters of requests, combined with AND. */
export const requestFilterShape = {
  outcome: outcomeSchema.optional(),
  type: z.enum(refusalTypes).optional(),
  model: modelIdSchema.optional(),
  organisation: idSchema.optional(),
  key: idSchema.optional(),
  /** For operators only. */
  node: idSchema.optional(),
  gateway: z.string().min(1).max(200).optional(),
  /** Minimum duration, such as `500ms`, `2s` or `1m`. */
  'slower-than': z
    .string()
    .refine((text) => !Number.isNaN(slowerThanMs(text)), 'must be a duration such as 500ms or 2s')
    .optional(),
  /** Time or age from which requests are included. */
  since: momentInQuery.optional(),
  request: requestIdSchema.optional(),
};

export const requestsPerPage = 100;
export const requestsPerPageMax = 1000;
const limit = numberInQuery.int().min(1).max(requestsPerPageMax).default(requestsPerPage);

export const requestListQuerySchema = z.object({
  ...requestFilterShape,
  limit,
  /** `next` of the previous page. */
  next: z.string().min(1).max(12_000).optional(),
});
export const requestTailQuerySchema = z.object({
  ...requestFilterShape,
  /** Number of rows in the first message. */
  limit: numberInQuery.int().min(0).max(requestsPerPageMax).default(requestsPerPage),
  /** Most rows per second to stream. The stream is then a sample, and `missed` counts the rest. */
  'rows-per-second': numberInQuery.int().min(1).max(10_000).optional(),
});
