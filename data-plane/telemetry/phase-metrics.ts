/** Metrics for the time that the gateway itself adds to a request, by phase, and for decisions about limits. */
import { Counter, type Registry } from 'prom-client';
import { Distribution, type Observations } from '../../shared/runtime/distribution.ts';
import type { RequestRecord } from '../request/request-record.ts';

const bounds = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1];
const limitRefusals: ReadonlySet<string> = new Set([
  'ContextWindowExceededError',
  'InferenceUpsellError',
  'InferenceRateLimitedError',
  'InferenceConcurrencyLimitedError',
]);

interface DecisionCount {
  readonly labels: { readonly tier: string; readonly decision: string };
  requests: number;
}

export class PhaseMetrics {
  /** Time by phase. Leaves out reading the body, which depends on the client, and what follows `connect`, on the node. */
  readonly #overhead: Readonly<Record<'auth' | 'shape' | 'limit_route' | 'connect', Observations>>;
  /** Number of requests by tier and by decision about limits. */
  readonly #decisions = new Map<string, DecisionCount>();

  constructor(registry: Registry) {
    const overhead = new Distribution({
      name: 'headgate_gateway_overhead_seconds',
      help: 'time that the gateway adds before the node has the request, by phase',
      ...{ bounds, registry },
    });
    const phase = (name: string): Observations => overhead.series({ phase: name });
    this.#overhead = {
      auth: phase('auth'),
      shape: phase('shape'),
      limit_route: phase('limit_route'),
      connect: phase('connect'),
    };
    const decisions = this.#decisions;
    new Counter({
      name: 'headgate_limiter_decisions_total',
      help: 'decisions of the limits of a tier: admitted, or the type of refusal',
      labelNames: ['tier', 'decision'],
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, requests } of decisions.values()) this.inc(labels, requests);
      },
    });
  }

  observe(record: RequestRecord): void {
    const { at, startMs } = record;
    const { auth, shape, limit_route, connect } = this.#overhead;
    observeBetween(auth, startMs, at.accepted);
    observeBetween(shape, at.read, at.shaped);
    observeBetween(limit_route, at.shaped, at.decided);
    observeBetween(connect, at.decided, at.sent);
    const decision = decisionLabel(record);
    if (decision === undefined) return;
    const tier = tierLabel(record);
    const key = `${tier} ${decision}`;
    const known = this.#decisions.get(key);
    if (known) known.requests++;
    else this.#decisions.set(key, { labels: { tier, decision }, requests: 1 });
  }
}

function observeBetween(phase: Observations, from: number | undefined, to: number | undefined): void {
  if (from !== undefined && to !== undefined) phase.observe((to - from) / 1000);
}

/** Label for the decision about limits, or undefined if the request never reached the limits. */
function decisionLabel({ decision, refusal }: RequestRecord): string | undefined {
  if (decision) return 'admitted';
  return refusal && limitRefusals.has(refusal.type) ? refusal.type : undefined;
}

function tierLabel({ decision, caller }: RequestRecord): string {
  if (decision) return decision.tier.id;
  return caller?.kind === 'key' ? (caller.owner.tier?.id ?? 'none') : 'anonymous';
}
