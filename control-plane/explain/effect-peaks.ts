/**
 * Peak use of limits in the last hour. Requests per minute come from gateways' counters, other uses from recorded decisions.
 */
import { readPromptTokensMax, type SeenLimit } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { Peaks } from './effect-limits.ts';
import type { SampledDecision, SampledRecord } from './sampled.ts';

/** Computes the peak use of limits for each organisation. `counted` has each one's peak number of requests per minute. */
export function computePeaks(
  counted: ReadonlyMap<string, number>,
  records: readonly SampledDecision[],
): Peaks {
  const peaks = new Map<string, Record<string, number>>();
  const add = (subject: string, what: string, used: number): void => {
    const of = peaks.get(subject) ?? {};
    peaks.set(subject, of);
    of[what] = Math.max(of[what] ?? 0, used);
  };
  for (const [subject, requests] of counted)
    add(subject, subject === visitorsSubject ? 'total.requestsPerMinute' : 'requestsPerMinute', requests);
  for (const { record } of records)
    for (const [subject, what, used] of recordedUses(record)) add(subject, what, used);
  return peaks;
}

type PeakUse = readonly [subject: string, what: string, used: number];

/** Returns the use of each limit at the time of a recorded decision, including the request itself. */
function recordedUses(record: SampledRecord): PeakUse[] {
  const { organisation, visitor, maxTokens = 0, counters } = record;
  const { windowUsed, inFlight, requests, concurrency, poolTokens, freeTurns, visitors } = counters;
  const subject = visitor === undefined ? organisation : visitorsSubject;
  if (subject === undefined) return [];
  const own: PeakUse[] = [
    [subject, 'requestsPerMinute', actualUse(requests, windowUsed) + 1],
    [subject, 'concurrency', actualUse(concurrency, inFlight) + 1],
    [subject, 'contextTokens', readPromptTokensMax(record) + maxTokens],
    visitor === undefined ? [subject, 'monthlyTokens', poolTokens] : [subject, 'freeTurns', freeTurns + 1],
  ];
  if (visitors === undefined) return own;
  return [
    ...own,
    [subject, 'total.requestsPerMinute', actualUse(visitors.requests, visitors.windowUsed) + 1],
    [subject, 'total.concurrency', actualUse(visitors.concurrency, visitors.inFlight) + 1],
    [subject, 'total.tokensPerDay', visitors.tokens],
  ];
}

/** Returns the actual use if it was recorded. Otherwise returns `compared`, which includes possible use by other gateways. */
function actualUse(use: SeenLimit | undefined, compared: number): number {
  return use === undefined ? compared : use.here + (use.elsewhere ?? 0);
}
