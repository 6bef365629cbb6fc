/** Metrics of prefix affinity: prompts that reached a node chosen for their prefix, and their cached tokens. */
import { Counter, type Registry } from 'prom-client';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';

/** How often a node was chosen for each reason, since the process started. */
export type AffinityChoices = Readonly<Record<'seen' | 'home' | 'spill', number>>;

export class AffinityMetrics {
  readonly #cachedTokens: Counter;

  constructor(registry: Registry, choices: () => AffinityChoices) {
    const metrics = new ObservedMetrics(registry);
    metrics.counters(
      'headgate_affinity_hits_total',
      'requests sent to a node that has read the beginning of their prompt (seen), or to a home of its prefix',
      'by',
      () => Object.entries(choices()).filter(([by]) => by !== 'spill'),
    );
    metrics.counter(
      'headgate_affinity_spills_total',
      'requests sent elsewhere, because the homes of their prefix were too busy',
      () => choices().spill,
    );
    this.#cachedTokens = new Counter({
      name: 'headgate_cached_prompt_tokens_total',
      help: 'prompt tokens of completed requests that nodes reported as cached',
      labelNames: ['model'],
      registers: [registry],
    });
  }

  observe(model: string, { cachedTokens = 0 }: { readonly cachedTokens?: number }): void {
    if (cachedTokens > 0) this.#cachedTokens.inc({ model }, cachedTokens);
  }
}
