/**
 * What a control plane asks a gateway about its requests, and the lines of the answers. What follows from the state (names, and
 * whose a key is that was refused) the control plane adds; what a gateway cannot decide of a filter, it lets through.
 */
import { z } from 'zod';
import { decisionRecordSchema, requestIdSchema } from './decisions.ts';
import { requestFilterShape, requestRowSchema, requestsPerPageMax, statsKinds } from './requests.ts';

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
  by: z.enum(statsKinds).default('model'),
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

/** Requests of one group. */
export const gatewayStatSchema = z.object({
  by: z.string().max(textMax).nullable(),
  /** Of requests whose organisation the control plane finds out. */
  ofKey: z.string().max(textMax).optional(),
  requests: count,
  served: count,
  refused: count,
  ended: count,
  promptTokens: count,
  completionTokens: count,
  /** Requests by bucket of the time to the first token. */
  firstToken: z.record(z.string().regex(/^\d{1,3}$/), count),
});
export type GatewayStat = z.infer<typeof gatewayStatSchema>;

/** The last line of statistics. */
export const gatewayStatsEndSchema = z.object({ partial: z.boolean() });

/** Of a sample: a decision, and how many requests of its organisation, host and model it stands for. */
export const gatewaySampledSchema = z.object({ requests: z.number().min(0), decision: decisionRecordSchema });
export type GatewaySampled = z.infer<typeof gatewaySampledSchema>;

/** The last line of a sample. */
export const gatewaySampleEndSchema = z.object({
  /** It is of the requests since then, ms since 1970. */
  sinceMs: count,
});

/** Bounds of buckets grow by a tenth. */
const bucketGrowth = Math.log(1.1);

export function firstTokenBucket(ms: number): number {
  return ms <= 1 ? 0 : Math.ceil(Math.log(ms) / bucketGrowth - 1e-9);
}

/** The upper bound of the bucket in which a share of all requests ends, ms; undefined: there are none. */
export function firstTokenQuantile(buckets: Readonly<Record<string, number>>, share: number) {
  const sorted = Object.entries(buckets).toSorted(([one], [other]) => Number(one) - Number(other));
  const all = sorted.reduce((sum, [, requests]) => sum + requests, 0);
  let seen = 0;
  for (const [bucket, requests] of sorted) {
    seen += requests;
    if (seen >= all * share) return Math.round(Math.exp(Number(bucket) * bucketGrowth) * 10) / 10;
  }
  return undefined;
}

/** Adds the counts of `more`. */
export function addGatewayStat(sums: Omit<GatewayStat, 'by' | 'ofKey'>, more: typeof sums): void {
  sums.requests += more.requests;
  sums.served += more.served;
  sums.refused += more.refused;
  sums.ended += more.ended;
  sums.promptTokens += more.promptTokens;
  sums.completionTokens += more.completionTokens;
  for (const [bucket, requests] of Object.entries(more.firstToken))
    sums.firstToken[bucket] = (sums.firstToken[bucket] ?? 0) + requests;
}
