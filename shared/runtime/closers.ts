/** Closes a process's resources in the reverse order in which they were opened. */
import type { LineLogger } from './logger.ts';
import { within } from './retry.ts';

/** Time limit in ms for closing all resources, so that one that cannot be closed does not keep a failed process alive. */
const closeTimeoutMs = 20_000;

/** Runs a function that opens resources. If it throws, closes the resources opened so far and rethrows. */
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

  /** Closes all resources. A failure is logged and does not stop the rest. Further calls have no effect. */
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
