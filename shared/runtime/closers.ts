/** What a composition root has opened, released in the opposite order. */
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

  /** Releases all; a step that fails is logged and does not keep the others from theirs. Idempotent. */
  async close(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        this.#logger.error({ err: error }, 'a part could not be closed; closing goes on');
      }
    }
  }
}
