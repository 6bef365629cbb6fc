/**
 * Traffic that a gateway has counted over some seconds, as part of its status report. Use it for plots and pages only, never
 * for bills or limits. Readers treat it as hostile input and accept either all of it or nothing.
 */
import { z } from 'zod';

/** Maximum number of rows in a report, one per organisation, stack and model. Any further traffic is summed in `rest`. */
export const trafficRowsMax = 500;
/** Maximum size of a report as JSON, in bytes. With long names, a report has room for fewer separate rows. */
export const trafficBytesMax = 100_000;
/** Maximum number of stack keys that a report counts separately. */
export const trafficCallersMax = 500;
/** Maximum number of nodes that a report counts separately. */
export const trafficNodesMax = 200;

/** Upper bounds of the histogram's buckets in ms. One more bucket counts everything above. */
export const ownTimeBounds = [0.5, 1, 2, 5, 10, 50, 250, 1000] as const;
export const firstTokenBounds = [20, 50, 100, 250, 500, 1000, 2500, 5000, 10_000] as const;

const count = z.int().min(0);
/** Latest time that a Date can represent, in ms since 1970. */
const msMax = 8.64e15;
const name = z.string().min(1).max(200);
/** Number of values in each bucket. Empty buckets at the end are left out. */
const histogram = z.array(count).max(16);

const refusedSchema = z.object({
  status: z.int(),
  requests: count,
  /** Time of the newest request that was refused in this way, by the gateway's clock in ms since 1970. */
  lastAtMs: count.max(msMax),
  lastRequest: z.string().max(64),
});

const trafficSumsSchema = z.object({
  /** Number of all requests, including refused ones and listings. */
  requests: count,
  /** Number of responses that the client, the node or a deadline ended early. */
  endedEarly: count.optional(),
  /** Number of billed prompt tokens of completed requests. */
  promptTokens: count.optional(),
  completionTokens: count.optional(),
  refused: z.record(z.string().max(64), refusedSchema).optional(),
  /** Time that the gateway added to a request before a node received it. */
  ownTime: histogram.optional(),
  /** Time from the arrival of the request line to the first byte of a streamed response. */
  firstToken: histogram.optional(),
});

const trafficRowSchema = trafficSumsSchema.extend({
  /** Organisation that sent the requests. Absent if the key was unknown. All visitors together count as one organisation. */
  organisation: name.optional(),
  /** Stack that received the requests. Absent for the shared host and for unknown stacks. */
  stack: name.optional(),
  /** Requested model. Absent for listings and for unknown models, because unknown names are not stored anywhere. */
  model: name.optional(),
});

const trafficCallerSchema = z.object({
  organisation: name,
  stack: name,
  surface: z.enum(['openai', 'anthropic']),
  key: name,
  requests: count,
});

/** Requests that a node answered in full or in part. There are no refusals, because nodes do not refuse requests. */
const trafficNodeSchema = trafficSumsSchema.omit({ refused: true }).extend({ node: name });

const trafficReportSchema = z.object({
  v: z.literal(1),
  /** Start of the interval in ms since the process started. It replaces earlier reports that start at or after this time. */
  fromMs: count,
  toMs: count,
  /** Number of requests in flight at the end of the interval. */
  inFlight: count,
  rows: z.array(trafficRowSchema).max(trafficRowsMax),
  /** Sum of the traffic that `rows` does not contain. */
  rest: trafficSumsSchema.optional(),
  /** Number of requests to stacks, by key and surface. */
  callers: z.array(trafficCallerSchema).max(trafficCallersMax).optional(),
  /** Number of requests to stacks with keys that `callers` does not contain. */
  otherCallers: count.optional(),
  /** Requests at the busiest nodes. Requests at other nodes are counted only in `rows`. */
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

export type Refusals = z.infer<typeof refusedSchema>;

/** Returns the sum of both counts, with the newest request of the two. */
export function addRefused(before: Refusals | undefined, refused: Refusals): Refusals {
  if (before === undefined) return { ...refused };
  const newest = before.lastAtMs > refused.lastAtMs ? before : refused;
  return { ...newest, requests: before.requests + refused.requests };
}
