/**
 * Loads and unloads models until the engine has the models that are installed at the node's place. Works on one model at a
 * time, and retries after growing pauses. Unloads only models that this agent loaded, never those that an operator loaded.
 */
import type { Install } from '../schemas/records/node-messages.ts';
import { installsPerNodeMax } from '../schemas/records/node-messages.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { Engine } from './engine.ts';
import { oneLine } from './engine-http.ts';
import type { ModelLoader } from './model-loader.ts';

export interface ModelSyncOptions {
  readonly engine: Engine;
  readonly logger: Logger;
  /** Pause in ms after the first failure. It doubles with each further failure. Default: 30 000. */
  readonly retryMsMin?: number;
}

const retryMsMax = 15 * 60_000;

/** Time in ms that an engine may take to list a model after loading it. */
const listedMsMax = 10_000;

interface Failure {
  readonly reason: string;
  readonly times: number;
}

export class ModelSync {
  readonly #options: ModelSyncOptions;
  readonly #stop = new AbortController();
  readonly #failures = new Map<string, Failure>();
  readonly #notBeforeMs = new Map<string, number>();
  readonly #loadedHere = new Set<string>();
  #desired: readonly string[] = [];
  #position = -1;
  #loading: { readonly model: string; percent: number | undefined } | undefined;
  #working: Promise<void> | undefined;

  constructor(options: ModelSyncOptions) {
    this.#options = options;
  }

  /** Sets the models that the engine should have, as of a log position. Ignores messages older than the last one. */
  setDesired(position: number, models: readonly string[]): void {
    if (position < this.#position) return;
    this.#position = position;
    this.#desired = models;
    for (const model of [...this.#failures.keys(), ...this.#notBeforeMs.keys()])
      if (!models.includes(model)) this.#forget(model);
    this.reconcile();
  }

  /** Starts the next load or unload, if one is due. Called for every heartbeat. */
  reconcile(): void {
    const { engine } = this.#options;
    const { loader, view } = engine;
    if (this.#working || !loader || !view.up || this.#stop.signal.aborted) return;
    const stale = [...this.#loadedHere].find((model) => !this.#desired.includes(model));
    const missing = this.#missing(view.models).find((model) => this.#mayLoad(model));
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
    const listed = new Set(served);
    for (const model of this.#failures.keys()) if (listed.has(model)) this.#forget(model);
    return this.#desired.filter((model) => !listed.has(model));
  }

  #mayLoad(model: string): boolean {
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
      this.#loadedHere.add(model);
      logger.info({ model }, 'model loaded');
    } catch (error) {
      const times = (this.#failures.get(model)?.times ?? 0) + 1;
      const reason = oneLine(error instanceof Error ? error.message : '') ?? 'it failed';
      const pauseMs = Math.min(retryMsMax, retryMsMin * 2 ** (times - 1));
      this.#failures.set(model, { reason, times });
      this.#notBeforeMs.set(model, performance.now() + pauseMs);
      logger.warn(
        { model, reason, retryInSeconds: pauseMs / 1000 },
        'model could not be loaded; it will be retried',
      );
    } finally {
      this.#loading = undefined;
    }
  }

  async #unload(loader: ModelLoader, model: string): Promise<void> {
    const { logger } = this.#options;
    this.#loadedHere.delete(model);
    try {
      await loader.unload(model, this.#stop.signal);
      logger.info({ model }, 'model unloaded');
    } catch (error) {
      const reason = oneLine(error instanceof Error ? error.message : '') ?? 'it failed';
      logger.warn({ model, reason }, 'model could not be unloaded');
    }
  }
}
