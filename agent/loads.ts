/**
 * Brings the models of an engine in line with what its place has installed, one at a time. What failed is tried again with
 * growing pauses. Only a model that this agent loaded itself is ever unloaded: what an operator put there stays.
 */
import type { Install } from '../schemas/node-messages.ts';
import { installsPerNodeMax } from '../schemas/node-messages.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { Engine } from './engine.ts';
import { oneLine } from './engine-http.ts';
import type { ModelLoader } from './model-loader.ts';

export interface LoadsOptions {
  readonly engine: Engine;
  readonly logger: Logger;
  /** Pause after the first failure, ms; doubles with each. */
  readonly retryMsMin?: number;
}

const retryMsMax = 15 * 60_000;

/** Until the engine lists what it has just loaded. */
const listedMsMax = 10_000;

interface Failure {
  readonly reason: string;
  readonly times: number;
}

export class Loads {
  readonly #options: LoadsOptions;
  readonly #stop = new AbortController();
  readonly #failures = new Map<string, Failure>();
  readonly #notBeforeMs = new Map<string, number>();
  readonly #ours = new Set<string>();
  #wanted: readonly string[] = [];
  #position = -1;
  #loading: { readonly model: string; percent: number | undefined } | undefined;
  #working: Promise<void> | undefined;

  constructor(options: LoadsOptions) {
    this.#options = options;
  }

  /** What should be loaded as of a position of the log; an older word than the last is passed over. */
  want(position: number, models: readonly string[]): void {
    if (position < this.#position) return;
    this.#position = position;
    this.#wanted = models;
    for (const model of [...this.#failures.keys(), ...this.#notBeforeMs.keys()])
      if (!models.includes(model)) this.#forget(model);
    this.consider();
  }

  /** Begins what is to be done next, if anything is; called at each beat. */
  consider(): void {
    const { engine } = this.#options;
    const { loader, view } = engine;
    if (this.#working || !loader || !view.up || this.#stop.signal.aborted) return;
    const stale = [...this.#ours].find((model) => !this.#wanted.includes(model));
    const missing = this.#missing(view.models).find((model) => this.#mayTry(model));
    const work =
      stale !== undefined
        ? this.#unload(loader, stale)
        : missing !== undefined
          ? this.#load(loader, missing)
          : undefined;
    this.#working = work?.finally(() => {
      this.#working = undefined;
    });
  }

  states(): readonly Install[] {
    const loading = this.#loading;
    const states: Install[] = [];
    if (loading) {
      const { model, percent } = loading;
      states.push({ model, state: 'loading', ...(percent !== undefined && { percent }) });
    }
    for (const [model, { reason }] of this.#failures)
      if (model !== loading?.model) states.push({ model, state: 'failed', reason });
    return states.slice(0, installsPerNodeMax);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#working;
  }

  #missing(served: readonly string[]): readonly string[] {
    const there = new Set(served);
    for (const model of this.#failures.keys()) if (there.has(model)) this.#forget(model);
    return this.#wanted.filter((model) => !there.has(model));
  }

  #mayTry(model: string): boolean {
    return performance.now() >= (this.#notBeforeMs.get(model) ?? 0);
  }

  #forget(model: string): void {
    this.#failures.delete(model);
    this.#notBeforeMs.delete(model);
  }

  async #load(loader: ModelLoader, model: string): Promise<void> {
    const { logger, retryMsMin = 30_000 } = this.#options;
    this.#loading = { model, percent: undefined };
    logger.info({ model }, 'loading a model');
    try {
      await loader.load(
        model,
        (percent) => {
          if (this.#loading) this.#loading.percent = percent;
        },
        this.#stop.signal,
      );
      this.#failures.delete(model);
      this.#notBeforeMs.set(model, performance.now() + listedMsMax);
      this.#ours.add(model);
      logger.info({ model }, 'model loaded');
    } catch (error) {
      const times = (this.#failures.get(model)?.times ?? 0) + 1;
      const reason = oneLine(error instanceof Error ? error.message : '') ?? 'it failed';
      const pauseMs = Math.min(retryMsMax, retryMsMin * 2 ** (times - 1));
      this.#failures.set(model, { reason, times });
      this.#notBeforeMs.set(model, performance.now() + pauseMs);
      logger.warn({ model, reason, againInSeconds: pauseMs / 1000 }, 'a model could not be loaded');
    } finally {
      this.#loading = undefined;
    }
  }

  async #unload(loader: ModelLoader, model: string): Promise<void> {
    const { logger } = this.#options;
    this.#ours.delete(model);
    try {
      await loader.unload(model, this.#stop.signal);
      logger.info({ model }, 'model unloaded');
    } catch (error) {
      const reason = oneLine(error instanceof Error ? error.message : '') ?? 'it failed';
      logger.warn({ model, reason }, 'a model could not be unloaded');
    }
  }
}
