/** Returns the counters that a hypothetical request would meet. At a past moment, only the tokens are known. */
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { windowStartMs } from '../../shared/decision/decide.ts';
import type { Asker } from '../explain/imagined.ts';
import type { CounterFacts } from '../explain/recorded-counters.ts';
import type { AdminContext } from './context.ts';

export interface FoundCounters {
  readonly counters: CounterFacts;
  /** Age in seconds of the oldest report that was used, or undefined if requests and weights in flight are not known. */
  readonly ageSeconds: number | undefined;
}

type Sources = Pick<AdminContext, 'counters' | 'usage' | 'gauges'>;
interface CurrentUse {
  readonly windowUsed: number;
  readonly inFlight: number;
}

const nothing: CurrentUse = { windowUsed: 0, inFlight: 0 };

/** Reads the counters that a request would meet now. `asker` is undefined if no organisation makes the request. */
export function presentCounters(
  { counters, usage, gauges }: Sources,
  asker: Asker | undefined,
  nowMs: number,
): FoundCounters {
  const used = readPoolTokens({ counters, usage }, asker);
  const own = asker === undefined ? nothing : readUse(gauges, asker.organisation, nowMs);
  const visitors = readUse(gauges, visitorsSubject, nowMs);
  const ages = [...gauges.gateways().values()];
  const isKnown = own !== undefined && visitors !== undefined && ages.length > 0;
  const day = new Date(nowMs).toISOString().slice(0, 10);
  const tokens = poolTokens({ counters, usage }, visitorsSubject, day);
  return {
    counters: {
      published: true,
      ...(own ?? nothing),
      ...{ poolTokens: used, freeTurns: 0, networkTurns: 0 },
      visitors: { ...(visitors ?? nothing), tokens },
    },
    ageSeconds: isKnown ? Math.max(...ages) / 1000 : undefined,
  };
}

export function pastCounters(
  sources: Pick<Sources, 'counters' | 'usage'>,
  asker: Asker | undefined,
): FoundCounters {
  return {
    counters: { ...nothing, published: true, poolTokens: readPoolTokens(sources, asker), freeTurns: 0 },
    ageSeconds: undefined,
  };
}

/**
 * Returns the pool tokens used: the gateways' counters, published within a minute, or the usage rows, whichever is higher.
 */
export function poolTokens(
  { counters, usage }: Pick<AdminContext, 'counters' | 'usage'>,
  organisation: string,
  period: string,
): number {
  return Math.max(counters.used(organisation, period).tokens, usage.poolTokens(organisation, period));
}

/** Returns how many tokens of its allowance the asking organisation has used in the period. */
export function readPoolTokens(
  sources: Pick<Sources, 'counters' | 'usage'>,
  asker: Asker | undefined,
): number {
  if (asker === undefined) return 0;
  const { organisation, period, adjustment } = asker;
  return Math.max(0, poolTokens(sources, organisation, period) + adjustment);
}

/** Reads a subject's current use of its limits. Returns undefined while the topic with the use cannot be read. */
function readUse(gauges: Sources['gauges'], subject: string, nowMs: number): CurrentUse | undefined {
  const requests = gauges.uses(subject, windowStartMs(subject, nowMs));
  const inFlight = gauges.uses(subject, inFlightWindow);
  if (requests === undefined || inFlight === undefined) return undefined;
  const sum = (uses: readonly { readonly used: number }[]): number =>
    uses.reduce((total, { used }) => total + used, 0);
  return { windowUsed: sum(requests), inFlight: sum(inFlight) };
}
