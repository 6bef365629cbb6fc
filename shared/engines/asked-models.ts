/**
 * Which models of a node accept images, and which rerank, where its engine reports that for one model at a time only.
 * A response is cached, so that few probes send a request. The requests of one probe are bounded in number and time,
 * because the health of a node must not wait for them: later probes send the others.
 */
import type { Dialect } from '../../schemas/names.ts';
import { askNode, boundedJson, type NodeAddress } from './ask-node.ts';
import { dialects } from './dialects.ts';
import { type EngineModel, takesImages } from './node-answers.ts';

/** An inference server, and the engine that it is. */
export interface ProbeTarget extends NodeAddress {
  readonly dialect: Dialect;
}

interface Known {
  readonly modified: number | undefined;
  readonly is: boolean;
  /** When to ask again, ms of `performance.now()`. */
  readonly askAgainMs: number;
}

interface QuestionOptions {
  /** Asks about one model; undefined where the response does not say it. */
  readonly ask: (target: ProbeTarget, model: string, timeoutMs: number) => Promise<boolean | undefined>;
  /** Models with the same key are one. */
  readonly keyOf: (target: ProbeTarget, model: string) => string;
  /** How long a response is cached; a model that is replaced is asked about at once. */
  readonly keptMs: number;
}

const modelsPerProbeMax = 16;
const probeMs = 1000;
/** A request without a response would delay each probe. */
const askAgainMs = 10_000;

/** What was asked about the models of one node, for as long as it is probed. */
export class AskedModels {
  readonly images = new Question({
    ask: askImages,
    keyOf: (_, name) => shortName(name),
    keptMs: Number.POSITIVE_INFINITY,
  });
  /** An engine that was started again may do something else with the same model. */
  readonly rerankers = new Question({ ask: askReranks, keyOf: rerankKeyOf, keptMs: 60_000 });
}

class Question {
  readonly #options: QuestionOptions;
  readonly #known = new Map<string, Known>();
  #asking: Promise<void> | undefined;
  #notBeforeMs = 0;

  constructor(options: QuestionOptions) {
    this.#options = options;
  }

  /** The names of the models that it is known to be so of. Never throws. */
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

  /** Models without a request so far are first, so that one model without a response delays no other. */
  #due(models: ReadonlyMap<string, EngineModel>, nowMs: number): (readonly [string, EngineModel])[] {
    const dueMs = (key: string): number => this.#known.get(key)?.askAgainMs ?? 0;
    const due = [...models].filter(([key]) => dueMs(key) <= nowMs);
    return due.sort(([a], [b]) => dueMs(a) - dueMs(b)).slice(0, modelsPerProbeMax);
  }

  /** A busy engine that does not respond leaves what is known of it. */
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

/** What an engine shows without the name of a model holds for all of its models. */
function rerankKeyOf({ dialect }: ProbeTarget, name: string): string {
  return dialects[dialect].rerankSigns.some(({ posts }) => posts) ? name : '';
}

/** All signs must be given. */
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

/** It is starting, or has too much to do. */
function isUnready(status: number): boolean {
  return status === 503 || status === 429;
}

/** A missing tag means `latest`. */
function shortName(name: string): string {
  return name.endsWith(':latest') ? name.slice(0, -':latest'.length) : name;
}
