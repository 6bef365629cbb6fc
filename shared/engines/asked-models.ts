/**
 * Which models of a node accept images, where its engine reports that for one model at a time only.
 * A response is cached until the model is replaced, so that a further probe sends no request. The requests of one probe are
 * bounded in number and time, because the health of a node must not wait for them: later probes send the others.
 */
import { askNode, boundedJson, type NodeAddress } from './ask-node.ts';
import { type EngineModel, takesImages } from './node-answers.ts';

interface Known {
  readonly modified: number | undefined;
  readonly takesImages: boolean;
  /** Where there was no response: when to retry, ms of `performance.now()`. */
  readonly askAgainMs: number;
}

const modelsPerProbeMax = 16;
const probeMs = 1000;
/** A request without a response would delay each probe. */
const askAgainMs = 10_000;

const answered = (takesImages: boolean) => ({ takesImages, askAgainMs: Number.POSITIVE_INFINITY });
const unanswered = () => ({ takesImages: false, askAgainMs: performance.now() + askAgainMs });

/** The cache of one node, for as long as it is probed. */
export class ImageModels {
  readonly #known = new Map<string, Known>();
  #asking: Promise<void> | undefined;
  #notBeforeMs = 0;

  /** The names of the models that are known to accept images. Never throws. */
  async among(target: NodeAddress, path: string, served: readonly EngineModel[]): Promise<string[]> {
    this.#asking ??= this.#ask(target, path, served).finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
    return served.map(({ name }) => name).filter((name) => this.#known.get(shortName(name))?.takesImages);
  }

  async #ask(target: NodeAddress, path: string, served: readonly EngineModel[]): Promise<void> {
    // Of two names of one model the one that is listed first is requested.
    const models = new Map<string, EngineModel>();
    for (const model of served) {
      const key = shortName(model.name);
      if (!models.has(key)) models.set(key, model);
    }
    for (const [name, { modified }] of this.#known) {
      const model = models.get(name);
      if (model === undefined || model.modified !== modified) this.#known.delete(name);
    }
    const beginMs = performance.now();
    if (beginMs < this.#notBeforeMs) return;
    const dueMs = (key: string): number => this.#known.get(key)?.askAgainMs ?? 0;
    // Models without a request so far are first, so that one model without a response delays no other.
    const due = [...models.keys()].filter((key) => dueMs(key) <= beginMs).sort((a, b) => dueMs(a) - dueMs(b));
    for (const key of due.slice(0, modelsPerProbeMax)) {
      const model = models.get(key);
      const leftMs = Math.ceil(probeMs - (performance.now() - beginMs));
      if (model === undefined || leftMs < probeMs / 2) return;
      try {
        this.#known.set(key, {
          modified: model.modified,
          ...(await askOne(target, path, model.name, leftMs)),
        });
      } catch {
        this.#known.set(key, { modified: model.modified, ...unanswered() });
        this.#notBeforeMs = performance.now() + askAgainMs;
        return;
      }
    }
  }
}

async function askOne(
  target: NodeAddress,
  path: string,
  model: string,
  timeoutMs: number,
): Promise<Omit<Known, 'modified'>> {
  const { statusCode, body } = await askNode(target, path, timeoutMs, { model });
  if (statusCode === 200) return answered(takesImages(await boundedJson(body)));
  await body.dump();
  return unanswered();
}

/** A missing tag means `latest`. */
function shortName(name: string): string {
  return name.endsWith(':latest') ? name.slice(0, -':latest'.length) : name;
}
