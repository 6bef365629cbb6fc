/**
 * Requests as people follow them: one row for each that has ended, with its verdict, in the command line, the admin API and the
 * console alike. Made of what gateways keep of a request; no prompt and no answer is part of it.
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
  /** When it was decided, by the clock of its gateway. */
  at: z.string(),
  gateway: z.string(),
  /** Of its key; absent of visitors, and where no key was known. */
  organisation: z.string().optional(),
  key: z.string().optional(),
  /** As the key is called now. */
  keyName: z.string().optional(),
  /** True for a visitor's request. */
  visitor: z.literal(true).optional(),
  /** `shared`, the id of a stack, or `unknown`; members see a stack of others as `unknown`, too. */
  host: z.string(),
  operation: z.string(),
  /** Absent: a listing, or a name that is no model's and therefore kept nowhere. */
  model: z.string().optional(),
  verdict: outcomeSchema,
  /** Status of the answer; absent if no head was sent. */
  status: z.int().optional(),
  /** Of a refusal. */
  type: z.string().optional(),
  /** Of a refusal, finer than the type; for operators. */
  cause: z.string().optional(),
  /** The party that ended the request early. */
  endedBy: enderSchema.optional(),
  /** For operators. */
  node: z.string().optional(),
  promptTokens: count.optional(),
  completionTokens: count.optional(),
  /** From the request line to the first byte of a node's answer. */
  firstTokenMs: ms.optional(),
  durationMs: ms,
  /** Of the state that it was decided on. */
  position: count,
});
export type RequestRow = z.infer<typeof requestRowSchema>;

/** The newest first: in the order in which they ended. */
export const requestListSchema = z.object({
  items: z.array(requestRowSchema),
  /** Opaque: what the next page, of older ones, is asked with. Absent: there are no more. */
  next: z.string().optional(),
  /** Gateways that did not answer, or keep no decisions: theirs are missing. */
  silent: z.array(z.string()),
});
export type RequestList = z.infer<typeof requestListSchema>;

/**
 * `data` of each event `requests` of the live stream (text/event-stream). The first has the newest `limit` ones, as the list has
 * them, with `next`; each later one those that ended since, newest first. A stream that is opened again begins again, so rows are
 * distinguished by `request`. `event: ended`: the session has ended.
 */
export const requestsMessageSchema = requestListSchema.extend({
  /** More ended than are sent, or than were asked for: so many are in the list alone. */
  missed: count.optional(),
});
export type RequestsMessage = z.infer<typeof requestsMessageSchema>;

const refusalTypes = Object.keys(refusalKinds) as [RefusalType, ...RefusalType[]];

/** Which requests: each is one that all given filters name. */
export const requestFilterShape = {
  outcome: outcomeSchema.optional(),
  type: z.enum(refusalTypes).optional(),
  model: modelIdSchema.optional(),
  organisation: idSchema.optional(),
  key: idSchema.optional(),
  /** For operators. */
  node: idSchema.optional(),
  gateway: z.string().min(1).max(200).optional(),
  /** `500ms`, `2s`, `1m`: of those that took longer. */
  'slower-than': z
    .string()
    .refine((text) => !Number.isNaN(slowerThanMs(text)), 'must be a duration such as 500ms or 2s')
    .optional(),
  /** A time, or a time ago. */
  since: momentInQuery.optional(),
  request: requestIdSchema.optional(),
};

export const requestsPerPage = 100;
export const requestsPerPageMax = 1000;
const limit = numberInQuery.int().min(1).max(requestsPerPageMax).default(requestsPerPage);

export const requestListQuerySchema = z.object({
  ...requestFilterShape,
  limit,
  /** `next` of the page before. */
  next: z.string().min(1).max(12_000).optional(),
});
export const requestTailQuerySchema = z.object({
  ...requestFilterShape,
  /** Rows of the first message. */
  limit: numberInQuery.int().min(0).max(requestsPerPageMax).default(requestsPerPage),
  /** So many rows a second at most of those that end, for who cannot show more: a sample; the others are in `missed`. */
  'rows-per-second': numberInQuery.int().min(1).max(10_000).optional(),
});
