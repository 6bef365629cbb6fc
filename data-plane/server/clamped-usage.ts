/**
 * Nodes that reported more tokens than a request can use. What is billed is bounded without this; it names the node. No node is
 * ejected for it: a tokeniser of an odd kind may exceed the bound for a prompt that somebody made for that.
 */
import type { Registry } from 'prom-client';
import type { Logger } from '../../shared/runtime/logger.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import type { RequestRecord } from '../request/gateway.ts';

/** For so long a status report names a node. */
const recentMs = 3_600_000;
const namedMax = 20;

export class ClampedUsage {
  readonly #line: RateLimitedLine;
  /** By node, the latest last. */
  readonly #lastMs = new Map<string, number>();

  constructor(registry: Registry, logger: Pick<Logger, 'warn'>) {
    const line = new RateLimitedLine((nodes) =>
      logger.warn({ nodes }, 'nodes reported more tokens than a request can use; less is billed'),
    );
    this.#line = line;
    new ObservedMetrics(registry).counters(
      'headgate_node_usage_clamped_total',
      'answers whose node reported more tokens than their request can use',
      'node',
      () => line.totals,
    );
  }

  observe(outcome: RequestRecord['outcome']): void {
    if (outcome?.kind !== 'completed' || outcome.usage.clamped !== true) return;
    this.#line.add(outcome.node);
    this.#lastMs.delete(outcome.node);
    this.#lastMs.set(outcome.node, performance.now());
  }

  /** Those of the last hour, the latest first. */
  recent(): string[] {
    const fromMs = performance.now() - recentMs;
    const recent = [...this.#lastMs].filter(([, lastMs]) => lastMs > fromMs).map(([node]) => node);
    return recent.reverse().slice(0, namedMax);
  }
}
