/** Counters with fixed values, which come from a record or from the gateways' reports. */
import type { SeenLimit } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { type Counters, windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { LimitUsers } from '../../shared/decision/limits.ts';

interface LimitCounters {
  /** Number of requests that was compared with the limit per minute. It equals the limit minus the remaining room. */
  readonly windowUsed: number;
  /** Weight in flight that was compared with the concurrency limit. It equals the limit minus the remaining room. */
  readonly inFlight: number;
  readonly requests?: SeenLimit | undefined;
  readonly concurrency?: SeenLimit | undefined;
}

/** Counter values at the time when the request arrived. */
export interface CounterFacts extends LimitCounters {
  /** Set if `windowUsed` and `inFlight` are sums of what all gateways published. */
  readonly published?: true | undefined;
  /** Number of tokens of the organisation's allowance that were used in the billing period. */
  readonly poolTokens: number;
  /** Number of turns that the visitor had completed. */
  readonly freeTurns: number;
  /** Number of turns that the visitor's network had used on the day of the request. */
  readonly networkTurns?: number | undefined;
  readonly visitors?: VisitorCounters | undefined;
}

interface VisitorCounters extends LimitCounters {
  /** Number of tokens that all visitors had used on the day of the request. */
  readonly tokens: number;
}

/** Creates counters that always return the recorded values. */
export function fixedCounters(counters: CounterFacts): Counters {
  const { visitors = { windowUsed: 0, inFlight: 0, tokens: 0 } } = counters;
  const of = (subject: string) => (subject === visitorsSubject ? visitors : counters);
  return {
    window: (subject, nowMs, limit) => ({
      used: comparedUse(limit, of(subject).windowUsed, of(subject).requests),
      endsAtMs: windowStartMs(subject, nowMs) + windowMs,
    }),
    inFlight: (subject, limit) => comparedUse(limit, of(subject).inFlight, of(subject).concurrency),
    users: (kind, subject) => {
      const found = of(subject);
      if (counters.published) return { used: kind === 'requests' ? found.windowUsed : found.inFlight };
      return withoutRoom(found[kind]);
    },
    poolTokens: () => counters.poolTokens,
    freeTurns: () => counters.freeTurns,
    networkTurns: () => counters.networkTurns ?? 0,
    visitorTokens: () => visitors.tokens,
  };
}

/** Returns the use to compare with a limit. If the use was recorded under another limit, returns the use actually counted. */
function comparedUse(limit: number | null, compared: number, use: SeenLimit | undefined): number {
  if (use === undefined || limit === null || compared + use.room === limit) return compared;
  return use.here + (use.elsewhere ?? 0);
}

function withoutRoom(use: SeenLimit | undefined): LimitUsers | undefined {
  if (use === undefined) return undefined;
  const { room: _, ...users } = use;
  return users;
}
