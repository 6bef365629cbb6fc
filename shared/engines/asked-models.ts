/**
 * Detects which models of a node accept images and which rerank, for engines that report this for only one model at a time.
 * Responses are cached. Each probe sends a bounded number of requests, because the node's health must not wait for them, and
 * later probes send the rest.
 */
import type { Dialect } from '../../schemas/names.ts';
import { askNode, boundedJson, type NodeAddress } from './ask-node.ts';
import { dialects } from './dialects.ts';
import { type EngineModel, takesImages } from './node-answers.ts';

/** Address of an inference server, with the dialect of its engine. */
export interface ProbeTarget extends NodeAddress {
  readonly dialect: Dialect;
}

interface CachedAnswer {
  readonly modified: number | undefined;
  readonly is: boolean;
  /** Time of `performance.now()` at which the model is due for another request. */
  readonly askAgainMs: number;
}

interface QuestionOptions {
  /** Asks the engine about one model. Returns undefined if the response does not answer the question. */
  readonly ask: (target: ProbeTarget, model: string, timeoutMs: number) => Promise<boolean | undefined>;
  /** Returns the key of a model's cached answer. Models with the same key share an answer. */
  readonly keyOf: (target: ProbeTarget, model: string) => string;
  /** Time in ms for which an answer stays cached. A model that was replaced is asked about immediately. */
  readonly keptMs: number;
}

const modelsPerProbeMax = 16;
const probeMs = 1000;
/** Pause in ms after a failed request, so that an unresponsive model does not delay every probe. */
const askAgainMs = 10_000;

/** Cached capabilities of the models of one node. They are kept for as long as the node is probed. */
export class AskedModels {
  readonly images = new ModelQuestion({
    ask: askImages,
    keyOf: (_, name) => shortName(name),
    keptMs: Number.POSITIVE_INFINITY,
  });
  /** These answers expire, because a restarted engine may use the same model for something else. */
  readonly rerankers = new ModelQuestion({ ask: askReranks, keyOf: rerankCacheKey, keptMs: 60_000 });
}

class ModelQuestion {
  readonly #options: QuestionOptions;
  readonly #known = new Map<string, CachedAnswer>();
  #asking: Promise<void> | undefined;
  #notBeforeMs = 0;

  constructor(options: QuestionOptions) {
    this.#options = options;
  }

  /** Returns the names of the models that are known to have the capability. Never throws. */
  async among(target: ProbeTarget, served: readonly EngineModel[]): Promise<string[]> {
    this.#asking ??= this.#ask(target, served).finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
    const { keyOf } = this.#options;
    return served.map(({ name }) => name).filter((name) => this.#known.get(keyOf(target, name))?.is);
  }

  async #ask(target: ProbeTarget, served: readonly EngineModel[]): Promise<void> {
    const { ask, keyOf } = this.#options;
    const models = new Map<string, EngineModel>();
    for (const model of served) {
      const key = keyOf(target, model.name);
      if (!models.has(key)) models.set(key, model);
    }
    for (const [key, { modified }] of this.#known) {
      const model = models.get(key);
      if (model === undefined || model.modified !== modified) this.#known.delete(key);
    }
    const beginMs = performance.now();
    if (beginMs < this.#notBeforeMs) return;
    for (const [key, model] of this.#due(models, beginMs)) {
      const leftMs = Math.ceil(probeMs - (performance.now() - beginMs));
      if (leftMs < probeMs / 2) return;
      try {
        this.#note(key, model, await ask(target, model.name, leftMs));
      } catch {
        this.#note(key, model, undefined);
        this.#notBeforeMs = performance.now() + askAgainMs;
        return;
      }
    }
  }

  /** Returns the models due for a request. New ones come first, so that an unresponsive model does not delay them. */
  #due(models: ReadonlyMap<string, EngineModel>, nowMs: number): (readonly [string, EngineModel])[] {
    const dueMs = (key: string): number => this.#known.get(key)?.askAgainMs ?? 0;
    const due = [...models].filter(([key]) => dueMs(key) <= nowMs);
    return due.sort(([a], [b]) => dueMs(a) - dueMs(b)).slice(0, modelsPerProbeMax);
  }

  /** Caches an answer. If `said` is undefined, the previous answer stays cached. */
  #note(key: string, { modified }: EngineModel, said: boolean | undefined): void {
    const is = said ?? this.#known.get(key)?.is ?? false;
    const keptMs = said === undefined ? askAgainMs : this.#options.keptMs;
    this.#known.set(key, { modified, is, askAgainMs: performance.now() + keptMs });
  }
}

async function askImages(
  target: ProbeTarget,
  model: string,
  timeoutMs: number,
): Promise<boolean | undefined> {
  const path = dialects[target.dialect].modelPath;
  if (path === undefined) return false;
  const { statusCode, body } = await askNode(target, path, timeoutMs, { model });
  if (statusCode === 200) return takesImages(await boundedJson(body));
  await body.dump();
  return undefined;
}

/** Returns the cache key for `rerankers`. If the engine ignores the model's name, its models share a key. */
function rerankCacheKey({ dialect }: ProbeTarget, name: string): string {
  return dialects[dialect].rerankSigns.some(({ posts }) => posts) ? name : '';
}

/** Whether the engine shows all signs of a reranker for this model. Undefined if the engine is not ready. */
async function askReranks(
  target: ProbeTarget,
  model: string,
  timeoutMs: number,
): Promise<boolean | undefined> {
  const { rerankSigns } = dialects[target.dialect];
  for (const { path, posts, statuses, isGiven = () => true } of rerankSigns) {
    const { statusCode, body } = await askNode(target, path, timeoutMs, posts ? { model } : undefined);
    const isSaid = statuses.includes(statusCode);
    if (isSaid && isGiven(await boundedJson(body).catch(() => undefined))) continue;
    await body.dump();
    return isUnready(statusCode) ? undefined : false;
  }
  return rerankSigns.length > 0;
}

/** Whether a response's status means that the engine is starting or overloaded. */
function isUnready(status: number): boolean {
  return status === 503 || status === 429;
}

/** Removes `:latest` from a model's name, because it is the default tag. */
function shortName(name: string): string {
  return name.endsWith(':latest') ? name.slice(0, -':latest'.length) : name;
}
