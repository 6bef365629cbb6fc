/** The resources of a composition root, closed in reverse order. */
import type { LineLogger } from './logger.ts';
import { within } from './retry.ts';

/** A resource that cannot be closed must not keep a process that could not start. */
const closeTimeoutMs = 20_000;

/** Runs what opens the resources of a process. Where it fails, what was opened so far is closed before the error is thrown. */
export async function openAll<Opened>(
  logger: Pick<LineLogger, 'error'>,
  open: (closers: Closers) => Promise<Opened>,
): Promise<Opened> {
  const closers = new Closers(logger);
  try {
    return await open(closers);
  } catch (error) {
    await within(closers.close(), closeTimeoutMs);
    throw error;
  }
}

export class Closers {
  readonly #logger: Pick<LineLogger, 'error'>;
  readonly #steps: (() => unknown)[] = [];

  constructor(logger: Pick<LineLogger, 'error'>) {
    this.#logger = logger;
  }

  add(step: () => unknown): void {
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
