/**
 * Traffic that a gateway counted over some seconds, as part of a status report. It is for plots and pages only, never for
 * bills or limits. Readers treat it as hostile input and accept all or nothing.
 */
import { z } from 'zod';

/** Most rows in a report, one per organisation, stack and model. The remaining ones are summed into one. */
export const trafficRowsMax = 500;
/** Maximum size as JSON, in bytes. Longer names leave room for fewer separate rows. */
export const trafficBytesMax = 100_000;
/** Maximum number of stack keys that are counted separately. */
export const trafficCallersMax = 500;
/** Maximum number of nodes that are counted separately. */
export const trafficNodesMax = 200;

/** Upper bounds of the histogram buckets, in ms. A last bucket counts everything above. */
export const ownTimeBounds = [0.5, 1, 2, 5, 10, 50, 250, 1000] as const;
export const firstTokenBounds = [20, 50, 100, 250, 500, 1000, 2500, 5000, 10_000] as const;

const count = z.int().min(0);
/** Latest moment that a Date can represent. */
const msMax = 8.64e15;
const name = z.string().min(1).max(200);
/** Counts by bucket. Empty buckets at the end are left out. */
const histogram = z.array(count).max(16);

const refusedSchema = z.object({
  status: z.int(),
  requests: count,
  /** Newest of these requests, by the gateway's clock in ms since 1970. */
  lastAtMs: count.max(msMax),
  lastRequest: z.string().max(64),
});

const trafficSumsSchema = z.object({
  /** All requests, including refused ones and listings. */
  requests: count,
  /** Answers that the client, the node or a deadline ended early. */
  endedEarly: count.optional(),
  /** Tokens of completed requests, as billed. */
  promptTokens: count.optional(),
  completionTokens: count.optional(),
  /** Refusals by type. */
  refused: z.record(z.string().max(64), refusedSchema).optional(),
  /** Time that the gateway added before a node received the request. */
  ownTime: histogram.optional(),
  /** Time to the first byte of streamed answers, from the request line on. */
  firstToken: histogram.optional(),
});

const trafficRowSchema = trafficSumsSchema.extend({
  /** Absent if the key was unknown. All visitors together count as one organisation. */
  organisation: name.optional(),
  /** Absent for the shared host and for unknown stacks. */
  stack: name.optional(),
  /** Absent for listings and for names of no model, which are not stored anywhere. */
  model: name.optional(),
});

const trafficCallerSchema = z.object({
  organisation: name,
  stack: name,
  surface: z.enum(['openai', 'anthropic']),
  key: name,
  requests: count,
});

/** Requests that a node answered in full or in part. Nodes do not refuse, so refusals are left out. */
const trafficNodeSchema = trafficSumsSchema.omit({ refused: true }).extend({ node: name });

const trafficReportSchema = z.object({
  v: z.literal(1),
  /** Start in ms since the process started. A report that begins no later than an earlier one includes it. */
  fromMs: count,
  toMs: count,
  /** Requests in flight at the end of the interval. */
  inFlight: count,
  rows: z.array(trafficRowSchema).max(trafficRowsMax),
  /** Sum of everything that no row contains. */
  rest: trafficSumsSchema.optional(),
  /** Requests to stacks by key and surface. */
  callers: z.array(trafficCallerSchema).max(trafficCallersMax).optional(),
  /** Requests of all other keys. */
  otherCallers: count.optional(),
  /** The busiest nodes. Requests of other nodes are counted only in the rows. */
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

/** Adds the counts of `more`, which is not modified. */
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

/** Sum of both counts, with the newest request of the two. */
export function addRefused(before: Refused | undefined, refused: Refused): Refused {
  if (before === undefined) return { ...refused };
  const newest = before.lastAtMs > refused.lastAtMs ? before : refused;
  return { ...newest, requests: before.requests + refused.requests };
}
