/** What a decision reads of counters, as it was recorded or is found elsewhere: they stand still while it is made. */
import type { SeenLimit } from '../../schemas/records/decisions.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { type Counters, windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { LimitUsers } from '../../shared/decision/limits.ts';

interface LimitCounters {
  /** What was compared with the limit of the minute: the limit less the room that there was. */
  readonly windowUsed: number;
  /** The same of the weights in flight. */
  readonly inFlight: number;
  readonly requests?: SeenLimit | undefined;
  readonly concurrency?: SeenLimit | undefined;
}

/** What the counters held when the request came. */
export interface CounterFacts extends LimitCounters {
  /** `windowUsed` and `inFlight` are what all gateways use, as they published it. */
  readonly published?: true | undefined;
  /** Tokens of the allowance used in the present period. */
  readonly poolTokens: number;
  /** Completed turns of the visitor. */
  readonly freeTurns: number;
  /** Turns of the visitor's network on the day. */
  readonly networkTurns?: number | undefined;
  /** Of all visitors together. */
  readonly visitors?: VisitorCounters | undefined;
}

interface VisitorCounters extends LimitCounters {
  /** Of the day. */
  readonly tokens: number;
}

/** Counters that stand still at what was recorded. */
export function countersOf(counters: CounterFacts): Counters {
  const { visitors = { windowUsed: 0, inFlight: 0, tokens: 0 } } = counters;
  const of = (subject: string) => (subject === visitorsSubject ? visitors : counters);
  return {
    window: (subject, nowMs, limit) => ({
      used: comparedWith(limit, of(subject).windowUsed, of(subject).requests),
      endsAtMs: windowStartMs(subject, nowMs) + windowMs,
    }),
    inFlight: (subject, limit) => comparedWith(limit, of(subject).inFlight, of(subject).concurrency),
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

/** Room was that of one limit: with another one, what is known to be used counts. */
function comparedWith(limit: number | null, compared: number, use: SeenLimit | undefined): number {
  if (use === undefined || limit === null || compared + use.room === limit) return compared;
  return use.here + (use.elsewhere ?? 0);
}

function withoutRoom(use: SeenLimit | undefined): LimitUsers | undefined {
  if (use === undefined) return undefined;
  const { room: _, ...users } = use;
  return users;
}
