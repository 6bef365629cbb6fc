/**
 * Rows of requests that have ended, each with its verdict. The command line, the admin API and the console show the same
 * rows, which never contain prompts or completions.
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
  /** Time at which the gateway decided the request, by the gateway's clock. */
  at: z.string(),
  gateway: z.string(),
  /** Organisation that the request's key belongs to. Absent for visitors and unknown keys. */
  organisation: z.string().optional(),
  key: z.string().optional(),
  /** Current name of the key. It may differ from the name at the time of the request. */
  keyName: z.string().optional(),
  visitor: z.literal(true).optional(),
  /** Host of the request: `shared`, a stack's id, or `unknown`. Members see other organisations' stacks as `unknown`. */
  host: z.string(),
  operation: z.string(),
  /** Requested model. Absent for listings and for unknown models, because unknown names are not stored anywhere. */
  model: z.string().optional(),
  verdict: outcomeSchema,
  /** HTTP status of the response. Absent if no header was sent. */
  status: z.int().optional(),
  /** Type of the refusal, if the request was refused. */
  type: z.string().optional(),
  /** Cause of the refusal, more detailed than its type. Only operators see it. */
  cause: z.string().optional(),
  endedBy: enderSchema.optional(),
  /** Node that the request was sent to. Only operators see it. */
  node: z.string().optional(),
  promptTokens: count.optional(),
  completionTokens: count.optional(),
  /** Time from the arrival of the request line to the first byte of a node's response. */
  firstTokenMs: ms.optional(),
  durationMs: ms,
  /** Position of the state that the decision used. */
  position: count,
});
export type RequestRow = z.infer<typeof requestRowSchema>;

/** Page of requests, newest first by the time at which they ended. */
export const requestListSchema = z.object({
  items: z.array(requestRowSchema),
  /** Opaque cursor for the next page, which contains older requests. Absent on the last page. */
  next: z.string().optional(),
  /** Gateways whose requests are missing from the page, because they did not respond or do not store decisions. */
  silent: z.array(z.string()),
});
export type RequestList = z.infer<typeof requestListSchema>;

/**
 * `data` of each `requests` event in the live stream (text/event-stream). The first event is like a page of the list: it
 * contains the newest `limit` requests and `next`. Later events contain the requests that have ended since, newest first. A
 * reopened stream starts again, so identify rows by `request`. An `ended` event means that the session has ended.
 */
export const requestsMessageSchema = requestListSchema.extend({
  /** Number of ended requests that the stream left out because of its limit on rows. The list of requests contains them. */
  missed: count.optional(),
});
export type RequestsMessage = z.infer<typeof requestsMessageSchema>;

const refusalTypes = Object.keys(refusalKinds) as [RefusalType, ...RefusalType[]];

/** Filters on requests, combined with AND. */
export const requestFilterShape = {
  outcome: outcomeSchema.optional(),
  type: z.enum(refusalTypes).optional(),
  model: modelIdSchema.optional(),
  organisation: idSchema.optional(),
  key: idSchema.optional(),
  /** Node that the requests were sent to. Only operators may use this filter. */
  node: idSchema.optional(),
  gateway: z.string().min(1).max(200).optional(),
  /** Minimum duration of a request, such as `500ms`, `2s` or `1m`. */
  'slower-than': z
    .string()
    .refine((text) => !Number.isNaN(slowerThanMs(text)), 'must be a duration such as 500ms or 2s')
    .optional(),
  /** Start of the time range of requests to return, as a time or an age. */
  since: momentInQuery.optional(),
  request: requestIdSchema.optional(),
};

export const requestsPerPage = 100;
export const requestsPerPageMax = 1000;
const limit = numberInQuery.int().min(1).max(requestsPerPageMax).default(requestsPerPage);

export const requestListQuerySchema = z.object({
  ...requestFilterShape,
  limit,
  /** Cursor for this page: the value of `next` in the response with the page before. */
  next: z.string().min(1).max(12_000).optional(),
});
export const requestTailQuerySchema = z.object({
  ...requestFilterShape,
  /** Maximum number of rows in the stream's first message. */
  limit: numberInQuery.int().min(0).max(requestsPerPageMax).default(requestsPerPage),
  /** Maximum number of rows per second. If more requests end, the stream is only a sample, and `missed` counts the rest. */
  'rows-per-second': numberInQuery.int().min(1).max(10_000).optional(),
});
