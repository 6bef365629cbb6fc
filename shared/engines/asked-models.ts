/**
 * Detects which models of a node accept images and which rerank, for engines that report this one model at a time. Responses
 * are cached. The requests of one probe are bounded, because the node's health must not wait; later probes send the rest.
 */
import type { Dialect } from '../../schemas/names.ts';
import { askNode, boundedJson, type NodeAddress } from './ask-node.ts';
import { dialects } from './dialects.ts';
import { type EngineModel, takesImages } from './node-answers.ts';

/** Inference server and its engine. */
export interface ProbeTarget extends NodeAddress {
  readonly dialect: Dialect;
}

interface CachedAnswer {
  readonly modified: number | undefined;
  readonly is: boolean;
  /** Time of the next request, in ms of `performance.now()`. */
  readonly askAgainMs: number;
}

interface QuestionOptions {
  /** Asks about one model. Returns undefined if the response does not answer the question. */
  readonly ask: (target: ProbeTarget, model: string, timeoutMs: number) => Promise<boolean | undefined>;
  /** Cache key. Models with the same key share a response. */
  readonly keyOf: (target: ProbeTarget, model: string) => string;
  /** Lifetime of a cached response. A replaced model is asked about at once. */
  readonly keptMs: number;
}

const modelsPerProbeMax = 16;
const probeMs = 1000;
/** Delay after a failed request. Without it, a model that never answers would delay each probe. */
const askAgainMs = 10_000;

/** Cached capabilities of one node's models, kept for as long as the node is probed. */
export class AskedModels {
  readonly images = new ModelQuestion({
    ask: askImages,
    keyOf: (_, name) => shortName(name),
    keptMs: Number.POSITIVE_INFINITY,
  });
  /** Expires, because a restarted engine may use the same model for something else. */
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

  /** Names of the models known to have the capability. Never throws. */
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

  /** Models due for a request, new ones first, so that one unresponsive model does not delay the others. */
  #due(models: ReadonlyMap<string, EngineModel>, nowMs: number): (readonly [string, EngineModel])[] {
    const dueMs = (key: string): number => this.#known.get(key)?.askAgainMs ?? 0;
    const due = [...models].filter(([key]) => dueMs(key) <= nowMs);
    return due.sort(([a], [b]) => dueMs(a) - dueMs(b)).slice(0, modelsPerProbeMax);
  }

  /** Caches the response. If the engine was too busy to answer, the previous result stays. */
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

/** Some engines answer without regard to the model's name. Their response holds for all of their models. */
function rerankCacheKey({ dialect }: ProbeTarget, name: string): string {
  return dialects[dialect].rerankSigns.some(({ posts }) => posts) ? name : '';
}

/** Whether all signs of a reranker are present. */
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

/** Whether the status means that the engine is starting or overloaded. */
function isUnready(status: number): boolean {
  return status === 503 || status === 429;
}

/** Removes the default tag `latest`. */
function shortName(name: string): string {
  return name.endsWith(':latest') ? name.slice(0, -':latest'.length) : name;
}
