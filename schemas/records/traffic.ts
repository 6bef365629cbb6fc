/**
 * What a gateway has counted of its requests in some seconds: part of a status report, where anything happened. For plots and
 * for pages; nothing is billed or limited by it. Read as hostile input, and as a whole or not at all.
 */
import { z } from 'zod';

/** A report has one row for each of so many triples of organisation, stack and model; the others are one together. */
export const trafficRowsMax = 500;
/** Of the JSON: with longer names fewer rows are apart. */
export const trafficBytesMax = 100_000;
/** How many keys of stacks are apart. */
export const trafficCallersMax = 500;
/** How many nodes are apart. */
export const trafficNodesMax = 200;

/** Upper bounds of the buckets, ms; the last bucket is above all of them. */
export const ownTimeBounds = [0.5, 1, 2, 5, 10, 50, 250, 1000] as const;
export const firstTokenBounds = [20, 50, 100, 250, 500, 1000, 2500, 5000, 10_000] as const;

const count = z.int().min(0);
/** The last moment that a date can be of. */
const msMax = 8.64e15;
const name = z.string().min(1).max(200);
/** Its last buckets are left out where they are empty. */
const histogram = z.array(count).max(16);

const refusedSchema = z.object({
  status: z.int(),
  requests: count,
  /** Of the newest: by the gateway's clock, ms since 1970. */
  lastAtMs: count.max(msMax),
  lastRequest: z.string().max(64),
});

const trafficSumsSchema = z.object({
  /** All of them, refused ones and listings too. */
  requests: count,
  /** Answers that the client, the node or a deadline ended. */
  endedEarly: count.optional(),
  /** Of completed requests, as they are billed. */
  promptTokens: count.optional(),
  completionTokens: count.optional(),
  /** By type. */
  refused: z.record(z.string().max(64), refusedSchema).optional(),
  /** What the gateway added before a node had the request. */
  ownTime: histogram.optional(),
  /** Of streams, from the request line. */
  firstToken: histogram.optional(),
});

const trafficRowSchema = trafficSumsSchema.extend({
  /** Absent: no known key. Visitors are one organisation together. */
  organisation: name.optional(),
  /** Absent: the shared host, or no stack that there is. */
  stack: name.optional(),
  /** Absent: a listing, or a name that is no model's and therefore kept nowhere. */
  model: name.optional(),
});

const trafficCallerSchema = z.object({
  organisation: name,
  stack: name,
  surface: z.enum(['openai', 'anthropic']),
  key: name,
  requests: count,
});

/** Of requests that it has answered, whole or in part: it refuses nothing. */
const trafficNodeSchema = trafficSumsSchema.omit({ refused: true }).extend({ node: name });

const trafficReportSchema = z.object({
  v: z.literal(1),
  /** ms since the start of the process. One that begins no later than an earlier one contains it. */
  fromMs: count,
  toMs: count,
  /** Requests at the end. */
  inFlight: count,
  rows: z.array(trafficRowSchema).max(trafficRowsMax),
  /** All that is in no row. */
  rest: trafficSumsSchema.optional(),
  /** Which keys called a stack, by the surface. */
  callers: z.array(trafficCallerSchema).max(trafficCallersMax).optional(),
  /** Requests of other keys. */
  otherCallers: count.optional(),
  /** The busiest; those of the other nodes are in the rows alone. */
  nodes: z.array(trafficNodeSchema).max(trafficNodesMax).optional(),
});

export type TrafficSums = z.infer<typeof trafficSumsSchema>;
export type TrafficRow = z.infer<typeof trafficRowSchema>;
export type TrafficCaller = z.infer<typeof trafficCallerSchema>;
export type TrafficNode = z.infer<typeof trafficNodeSchema>;
export type TrafficReport = z.infer<typeof trafficReportSchema>;

export function readTraffic(value: unknown): TrafficReport | undefined {
  return trafficReportSchema.safeParse(value).data;
}

/** Adds the counts of `more`, which stays as it is. */
export function addTraffic(sums: TrafficSums, more: TrafficSums): void {
  sums.requests += more.requests;
  for (const name of ['endedEarly', 'promptTokens', 'completionTokens'] as const)
    if (more[name] !== undefined) sums[name] = (sums[name] ?? 0) + more[name];
  for (const name of ['ownTime', 'firstToken'] as const) {
    const counts = more[name];
    if (counts === undefined) continue;
    const into = sums[name] ?? [];
    sums[name] = into;
    for (const [bucket, requests] of counts.entries()) into[bucket] = (into[bucket] ?? 0) + requests;
  }
  if (more.refused === undefined) return;
  sums.refused ??= {};
  for (const [type, refused] of Object.entries(more.refused)) {
    const known = Object.hasOwn(sums.refused, type) ? sums.refused[type] : undefined;
    sums.refused[type] = addRefused(known, refused);
  }
}

export type Refused = z.infer<typeof refusedSchema>;

/** Both together, with the newest of them. */
export function addRefused(before: Refused | undefined, refused: Refused): Refused {
  if (before === undefined) return { ...refused };
  const newest = before.lastAtMs > refused.lastAtMs ? before : refused;
  return { ...newest, requests: before.requests + refused.requests };
}
