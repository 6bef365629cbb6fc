/** The resources of a composition root, closed in reverse order. */
import type { LineLogger } from './logger.ts';

export class Closers {
  readonly #logger: Pick<LineLogger, 'error'>;
  readonly #steps: (() => Promise<void> | void)[] = [];

  constructor(logger: Pick<LineLogger, 'error'>) {
    this.#logger = logger;
  }

  add(step: () => Promise<void> | void): void {
    this.#steps.push(step);
  }

  /** Closes all; a failed step is logged, and the others still run. Idempotent. */
  async close(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        this.#logger.error({ err: error }, 'a resource could not be closed; closing continues');
      }
    }
  }
}
