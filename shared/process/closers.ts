/** What a composition root has opened, released in the opposite order. */
export class Closers {
  readonly #steps: (() => Promise<void> | void)[] = [];

  add(step: () => Promise<void> | void): void {
    this.#steps.push(step);
  }

  /** Releases all; a step that fails does not keep the others from theirs. Idempotent. */
  async close(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) {
      try {
        await step();
      } catch {
        // Closing goes on: what could not be released goes with the process.
      }
    }
  }
}
