/**
 * Reports nodes that claim more tokens than a request can use. Billing is bounded in any case. Such a node is not ejected,
 * because with an unusual tokeniser a crafted prompt can exceed the bound.
 */
import type { Registry } from 'prom-client';
import type { Logger } from '../../shared/runtime/logger.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { RecentTexts } from './recent-texts.ts';

export class ClampedUsage {
  readonly #line: RateLimitedLine;
  readonly #nodes = new RecentTexts();

  constructor(registry: Registry, logger: Pick<Logger, 'warn'>) {
    const line = new RateLimitedLine((nodes) =>
      logger.warn({ nodes }, 'nodes reported more tokens than a request can use; less is billed'),
    );
    this.#line = line;
    new ObservedMetrics(registry).counters(
      'headgate_node_usage_clamped_total',
      'answers whose node reported more tokens than the request can use',
      'node',
      () => line.totals,
    );
  }

  observe(outcome: RequestRecord['outcome']): void {
    if (outcome?.kind !== 'completed' || outcome.usage.clamped !== true) return;
    this.#line.add(outcome.node);
    this.#nodes.add(outcome.node);
  }

  /** Names of the nodes that claimed too many tokens in the last hour, latest first. */
  recent(): string[] {
    return this.#nodes.recent();
  }
}
