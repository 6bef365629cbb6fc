/**
 * What a control plane asks a gateway about its requests, and the lines of the answers. What follows from the state (names, and
 * whose a key is that was refused) the control plane adds; what a gateway cannot decide of a filter, it lets through.
 */
import { z } from 'zod';
import { decisionRecordSchema, requestIdSchema } from '../records/decisions.ts';
import { requestFilterShape, requestRowSchema, requestsPerPageMax } from './requests.ts';

const number = z.coerce.number<number>();
const count = z.int().min(0);

/** So many decisions are a sample of all gateways together. */
export const sampledMax = 20_000;

export const gatewayQuerySchema = z.object({
  ...z
    .object(requestFilterShape)
    .pick({ outcome: true, type: true, model: true, organisation: true, key: true, node: true }).shape,
  request: requestIdSchema.optional(),
  slowerThanMs: number.min(0).optional(),
  /** ms since 1970, of the decision. */
  sinceMs: number.min(0).default(0),
  /** Only requests that were kept before the one of this number. */
  before: number.min(0).default(Number.MAX_SAFE_INTEGER),
  limit: number.int().min(1).max(requestsPerPageMax).default(requestsPerPageMax),
  /** How many decisions a sample has. */
  sampled: number.int().min(1).max(sampledMax).default(sampledMax),
  /** Of rows that are followed, so many at most; the others are counted. */
  rowsPerSecond: number.int().min(1).optional(),
});
export type GatewayQuery = z.output<typeof gatewayQuerySchema>;

/** Longer than any name, type or cause: what is longer no gateway has, and nobody is shown. */
const textMax = 300;
const hasLongText = (row: object): boolean =>
  Object.values(row).some((value) => typeof value === 'string' && value.length > textMax);

export const gatewayRowSchema = requestRowSchema
  .omit({ gateway: true, keyName: true })
  .extend({
    at: z.iso.datetime(),
    /** Status of the answer; 0 if no head was sent, because control planes of version 0.2.0 require a number. */
    status: z.int(),
    /** By the clock of the gateway: by which rows of several are merged. */
    endedMs: z.number(),
    /** Its number in the records of the gateway; absent of one that is followed. */
    n: count.optional(),
  })
  .refine((row) => !hasLongText(row), 'a text of a row is too long');
export type GatewayRow = z.infer<typeof gatewayRowSchema>;

/** The last line of a page. */
export const gatewayPageEndSchema = z.object({
  /** Where to continue; absent: there are no more. */
  before: count.optional(),
});

/** Between rows that are followed, at least every two seconds. */
export const gatewayPulseSchema = z.object({ missed: count });

/** Of a sample: a decision, and how many requests of its organisation, host and model it stands for. */
export const gatewaySampledSchema = z.object({ requests: z.number().min(0), decision: decisionRecordSchema });
export type GatewaySampled = z.infer<typeof gatewaySampledSchema>;

/** The last line of a sample. */
export const gatewaySampleEndSchema = z.object({
  /** It is of the requests since then, ms since 1970. */
  sinceMs: count,
});
