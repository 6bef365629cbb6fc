/**
 * Probes one inference server: its health route, then the models it serves.
 * The node is untrusted: no redirect is followed, the size of a response and the wait are bounded, and none of its text is
 * kept except valid names of models.
 */
import { isOutOfFiles } from '../runtime/open-files.ts';
import { askNode, boundedJson } from './ask-node.ts';
import type { AskedModels, ProbeTarget } from './asked-models.ts';
import { dialects } from './dialects.ts';
import { modelsPath, servedModels } from './node-answers.ts';

export type Probed =
  | {
      readonly up: true;
      readonly models: readonly string[];
      readonly windows: Readonly<Record<string, number>>;
      /** Those that accept images, where the engine reports that. */
      readonly imageModels: readonly string[];
      /** Those that rerank and do nothing else, where the engine shows that. */
      readonly rerankModels: readonly string[];
    }
  /** `reason` may be stored in an event: a short fixed text, without text of the node. `silent`: it may only be slow. */
  | { readonly up: false; readonly reason: string; readonly silent: boolean; readonly isOwnFault?: true };

const timeoutDefaultMs = 2000;
const modelsMax = 1000;

/** Nothing is known of the node: this process could not open a connection to it. */
export function provesNothing(probed: Probed): boolean {
  return !probed.up && probed.isOwnFault === true;
}

/** `timeoutMs` is for each of its requests; those about single models are bounded by `asked`. Never throws. */
export async function probe(
  target: ProbeTarget,
  asked: AskedModels,
  timeoutMs = timeoutDefaultMs,
): Promise<Probed> {
  try {
    const health = await askNode(target, dialects[target.dialect].healthPath, timeoutMs);
    await health.body.dump();
    if (health.statusCode !== 200) return answeredBadly(`health answered ${health.statusCode}`);
    const answer = await askNode(target, modelsPath, timeoutMs);
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      return answeredBadly(`models answered ${answer.statusCode}`);
    }
    return await modelsOf(target, asked, await boundedJson(answer.body));
  } catch (error) {
    return failed(error);
  }
}

function answeredBadly(reason: string): Probed {
  return { up: false, reason, silent: false };
}

async function modelsOf(target: ProbeTarget, asked: AskedModels, answer: unknown): Promise<Probed> {
  const served = servedModels(target.dialect, answer).slice(0, modelsMax);
  const named = served.filter(({ name }) => name.length <= 200);
  const models = named.map(({ name }) => name);
  const windows: Record<string, number> = {};
  for (const { name, windowTokens } of served) if (windowTokens !== undefined) windows[name] = windowTokens;
  const [imageModels, rerankModels] = await Promise.all([
    asked.images.among(target, named),
    asked.rerankers.among(target, named),
  ]);
  return { up: true, models, windows, imageModels, rerankModels };
}

function failed(error: unknown): Probed {
  if (error instanceof SyntaxError) return answeredBadly('models answered no JSON');
  if (isOutOfFiles(error)) return { up: false, reason: 'not probed', silent: true, isOwnFault: true };
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ECONNREFUSED') return answeredBadly('connection refused');
  const slow = /TIMEOUT|ABORT/.test(code) || (error instanceof Error && error.name === 'TimeoutError');
  if (slow) return { up: false, reason: 'no answer in time', silent: true };
  const reason = /^[A-Z_]{1,40}$/.test(code) ? `unreachable (${code})` : 'unreachable';
  return { up: false, reason, silent: true };
}
