/**
 * Queries that a control plane sends to a gateway about its requests, and the lines of the gateway's responses. The control
 * plane adds values that only the state contains, such as names. A gateway returns a row even if it cannot evaluate one of
 * the filters.
 */
import { z } from 'zod';
import { decisionRecordSchema, requestIdSchema } from '../records/decisions.ts';
import { requestFilterShape, requestRowSchema, requestsPerPageMax } from './requests.ts';

const number = z.coerce.number<number>();
const count = z.int().min(0);

/** Maximum number of decisions in a sample, summed over all gateways. */
export const sampledMax = 20_000;

export const gatewayQuerySchema = z.object({
  ...z
    .object(requestFilterShape)
    .pick({ outcome: true, type: true, model: true, organisation: true, key: true, node: true }).shape,
  request: requestIdSchema.optional(),
  slowerThanMs: number.min(0).optional(),
  /** Start of the time range, in ms since 1970. Earlier decisions are left out. */
  sinceMs: number.min(0).default(0),
  /** Selects only requests that the gateway recorded before the request with this number. */
  before: number.min(0).default(Number.MAX_SAFE_INTEGER),
  limit: number.int().min(1).max(requestsPerPageMax).default(requestsPerPageMax),
  sampled: number.int().min(1).max(sampledMax).default(sampledMax),
  /** Maximum number of rows per second in a live tail. The rest are counted but not sent. */
  rowsPerSecond: number.int().min(1).optional(),
});
export type GatewayQuery = z.output<typeof gatewayQuerySchema>;

/** Maximum length of a text in a row. Genuine names, types and causes are shorter, so rows with a longer text are dropped. */
const textMax = 300;
const hasLongText = (row: object): boolean =>
  Object.values(row).some((value) => typeof value === 'string' && value.length > textMax);

export const gatewayRowSchema = requestRowSchema
  .omit({ gateway: true, keyName: true })
  .extend({
    at: z.iso.datetime(),
    /** HTTP status of the response, but 0 if no header was sent, because control planes of version 0.2.0 need a number. */
    status: z.int(),
    /** Time at which the request ended, by the gateway's clock. The control plane merges rows of several gateways by it. */
    endedMs: z.number(),
    /** Number of the row in the gateway's records. Absent in a live tail. */
    n: count.optional(),
  })
  .refine((row) => !hasLongText(row), 'a text of a row is too long');
export type GatewayRow = z.infer<typeof gatewayRowSchema>;

export const gatewayPageEndSchema = z.object({
  /** Row number from which the next page continues. Absent on the last page. */
  before: count.optional(),
});

/** Line that a gateway sends in a live tail at least every two seconds. `missed` is the number of rows not sent. */
export const gatewayPulseSchema = z.object({ missed: count });

/** Sampled decision, with the number of similar requests (same organisation, host and model) that it stands for. */
export const gatewaySampledSchema = z.object({ requests: z.number().min(0), decision: decisionRecordSchema });
export type GatewaySample = z.infer<typeof gatewaySampledSchema>;

export const gatewaySampleEndSchema = z.object({
  /** Start of the sampled time range, in ms since 1970. */
  sinceMs: count,
});
