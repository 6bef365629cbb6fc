/**
 * Questions that a control plane asks a gateway about its requests, and the lines of the answers. The control plane adds what
 * only the state knows, such as names. If a gateway cannot evaluate a filter, it lets the row through.
 */
import { z } from 'zod';
import { decisionRecordSchema, requestIdSchema } from '../records/decisions.ts';
import { requestFilterShape, requestRowSchema, requestsPerPageMax } from './requests.ts';

const number = z.coerce.number<number>();
const count = z.int().min(0);

/** Number of decisions in a sample of all gateways together. */
export const sampledMax = 20_000;

export const gatewayQuerySchema = z.object({
  ...z
    .object(requestFilterShape)
    .pick({ outcome: true, type: true, model: true, organisation: true, key: true, node: true }).shape,
  request: requestIdSchema.optional(),
  slowerThanMs: number.min(0).optional(),
  /** Only decisions from this time on, in ms since 1970. */
  sinceMs: number.min(0).default(0),
  /** Only requests recorded before the one with this number. */
  before: number.min(0).default(Number.MAX_SAFE_INTEGER),
  limit: number.int().min(1).max(requestsPerPageMax).default(requestsPerPageMax),
  /** Number of decisions in the sample. */
  sampled: number.int().min(1).max(sampledMax).default(sampledMax),
  /** Most rows per second of a followed list. Further rows are only counted. */
  rowsPerSecond: number.int().min(1).optional(),
});
export type GatewayQuery = z.output<typeof gatewayQuerySchema>;

/** Longer than any name, type or cause. Rows with longer texts are dropped, because no genuine gateway sends them. */
const textMax = 300;
const hasLongText = (row: object): boolean =>
  Object.values(row).some((value) => typeof value === 'string' && value.length > textMax);

export const gatewayRowSchema = requestRowSchema
  .omit({ gateway: true, keyName: true })
  .extend({
    at: z.iso.datetime(),
    /** Status of the answer. 0 if no header was sent, because control planes of version 0.2.0 require a number. */
    status: z.int(),
    /** Time by the gateway's clock, used to merge the rows of several gateways. */
    endedMs: z.number(),
    /** Row number in the gateway's records. Absent in a followed list. */
    n: count.optional(),
  })
  .refine((row) => !hasLongText(row), 'a text of a row is too long');
export type GatewayRow = z.infer<typeof gatewayRowSchema>;

/** Last line of a page. */
export const gatewayPageEndSchema = z.object({
  /** Number from which the next page continues. Absent on the last page. */
  before: count.optional(),
});

/** Line sent at least every two seconds between followed rows. */
export const gatewayPulseSchema = z.object({ missed: count });

/** Sampled decision, and the number of requests with its organisation, host and model that it represents. */
export const gatewaySampledSchema = z.object({ requests: z.number().min(0), decision: decisionRecordSchema });
export type GatewaySampled = z.infer<typeof gatewaySampledSchema>;

/** Last line of a sample. */
export const gatewaySampleEndSchema = z.object({
  /** Start of the sampled time, in ms since 1970. */
  sinceMs: count,
});
