/**
 * Traffic that a gateway has counted over some seconds, as part of its status report. It is only for plots and pages, and
 * never for bills or limits. Readers treat it as hostile input and accept either all of it or nothing.
 */
import { z } from 'zod';

/** Maximum number of rows in a report, one per organisation, stack and model. The rest of the traffic is summed in `rest`. */
export const trafficRowsMax = 500;
/** Maximum size of a report in bytes, as JSON. If names are long, fewer rows than `trafficRowsMax` fit into it. */
export const trafficBytesMax = 100_000;
/** Maximum number of keys whose requests to stacks a report counts separately. */
export const trafficCallersMax = 500;
/** Maximum number of nodes whose requests a report counts separately. */
export const trafficNodesMax = 200;

/** Upper bounds in ms of a histogram's buckets. One more bucket counts all larger values. */
export const ownTimeBounds = [0.5, 1, 2, 5, 10, 50, 250, 1000] as const;
export const firstTokenBounds = [20, 50, 100, 250, 500, 1000, 2500, 5000, 10_000] as const;

const count = z.int().min(0);
/** Latest time that a Date can represent, in ms since 1970. */
const msMax = 8.64e15;
const name = z.string().min(1).max(200);
/** Number of values in each bucket of a histogram. Empty buckets at the end are left out. */
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
  /** Time that the gateway itself took to handle a request before it sent the request to a node. */
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

/** Requests that a node answered in full or in part. Refusals are absent, because nodes do not refuse requests. */
const trafficNodeSchema = trafficSumsSchema.omit({ refused: true }).extend({ node: name });

const trafficReportSchema = z.object({
  v: z.literal(1),
  /** Start of the interval, in ms since the process started. Replaces earlier reports that start at or after this time. */
  fromMs: count,
  toMs: count,
  /** Number of requests in flight at the end of the interval. */
  inFlight: count,
  rows: z.array(trafficRowSchema).max(trafficRowsMax),
  /** Sum of the traffic for which `rows` has no row. */
  rest: trafficSumsSchema.optional(),
  /** Number of requests to stacks, for each stack, key and surface. */
  callers: z.array(trafficCallerSchema).max(trafficCallersMax).optional(),
  /** Number of requests to stacks with keys that `callers` does not contain. */
  otherCallers: count.optional(),
  /** Requests at the busiest nodes only. Those at other nodes are counted only in `rows`. */
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

/** Returns the sum of two counts of refusals, with the newer of their last requests. */
export function addRefused(before: Refusals | undefined, refused: Refusals): Refusals {
  if (before === undefined) return { ...refused };
  const newest = before.lastAtMs > refused.lastAtMs ? before : refused;
  return { ...newest, requests: before.requests + refused.requests };
}
