/** How often a prompt went where a prefix of it is, and how many of its tokens nodes then had cached. */
import { Counter, type Registry } from 'prom-client';

/** Choices of a node since the start. */
export type AffinityChoices = Readonly<Record<'seen' | 'home' | 'spill', number>>;

export class AffinityMetrics {
  readonly #cachedTokens: Counter;

  constructor(registry: Registry, choices: () => AffinityChoices) {
    const registers = [registry];
    new Counter({
      name: 'headgate_affinity_hits_total',
      help: 'requests sent to a node that got their prompt up to a late point (seen), or to a home of its prefix',
      labelNames: ['by'],
      registers,
      collect() {
        const { seen, home } = choices();
        this.reset();
        this.inc({ by: 'seen' }, seen);
        this.inc({ by: 'home' }, home);
      },
    });
    new Counter({
      name: 'headgate_affinity_spills_total',
      help: 'requests sent elsewhere because the homes of their prefix had too much load',
      registers,
      collect() {
        this.reset();
        this.inc(choices().spill);
      },
    });
    this.#cachedTokens = new Counter({
      name: 'headgate_cached_prompt_tokens_total',
      help: 'tokens of completed prompts that nodes reported as cached',
      labelNames: ['model'],
      registers,
    });
  }

  observe(model: string, { cachedTokens = 0 }: { readonly cachedTokens?: number }): void {
    if (cachedTokens > 0) this.#cachedTokens.inc({ model }, cachedTokens);
  }
}
