/** Counters with fixed values, taken from a record or from the gateways' reports. */
import type { SeenLimit } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { type Counters, windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { LimitUsers } from '../../shared/decision/limits.ts';

interface LimitCounters {
  /** Value compared with the limit per minute: the limit minus its remaining room. */
  readonly windowUsed: number;
  /** Value compared with the concurrency limit: the limit minus its remaining room. */
  readonly inFlight: number;
  readonly requests?: SeenLimit | undefined;
  readonly concurrency?: SeenLimit | undefined;
}

/** Values of the counters when the request arrived. */
export interface CounterFacts extends LimitCounters {
  /** Set if `windowUsed` and `inFlight` are sums that all gateways published. */
  readonly published?: true | undefined;
  /** Tokens of the allowance used in the present period. */
  readonly poolTokens: number;
  /** Completed turns of the visitor. */
  readonly freeTurns: number;
  /** Turns of the visitor's network on that day. */
  readonly networkTurns?: number | undefined;
  /** Counters of all visitors together. */
  readonly visitors?: VisitorCounters | undefined;
}

interface VisitorCounters extends LimitCounters {
  /** Tokens of that day. */
  readonly tokens: number;
}

/** Counters that always return the recorded values. */
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

/** Value to compare. The recorded room applied to one limit, so for another limit the known use counts. */
function comparedUse(limit: number | null, compared: number, use: SeenLimit | undefined): number {
  if (use === undefined || limit === null || compared + use.room === limit) return compared;
  return use.here + (use.elsewhere ?? 0);
}

function withoutRoom(use: SeenLimit | undefined): LimitUsers | undefined {
  if (use === undefined) return undefined;
  const { room: _, ...users } = use;
  return users;
}
