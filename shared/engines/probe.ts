/** Probes one untrusted inference server: first its health route, then its models. It keeps only valid model names. */
import { isOutOfFiles } from '../runtime/open-files.ts';
import { askNode, boundedJson } from './ask-node.ts';
import type { AskedModels, ProbeTarget } from './asked-models.ts';
import { dialects } from './dialects.ts';
import { modelsPath, servedModels } from './node-answers.ts';

export type ProbeResult =
  | {
      readonly up: true;
      readonly models: readonly string[];
      readonly windows: Readonly<Record<string, number>>;
      /** Models that accept images, as far as the engine reports this. */
      readonly imageModels: readonly string[];
      /** Models that only rerank, as far as the engine's responses show this. */
      readonly rerankModels: readonly string[];
    }
  /**
   * `reason` is a fixed text, so events may contain it. If `silent` is true, the node did not respond but may only be slow.
   */
  | { readonly up: false; readonly reason: string; readonly silent: boolean; readonly isOwnFault?: true };

const timeoutDefaultMs = 2000;
const modelsMax = 1000;

/** Whether a probe proves nothing about the node, because this process itself could not open a connection. */
export function provesNothing(probed: ProbeResult): boolean {
  return !probed.up && probed.isOwnFault === true;
}

/** Probes a node. `timeoutMs` applies to each request. `asked` sends the requests about single models. Never throws. */
export async function probe(
  target: ProbeTarget,
  asked: AskedModels,
  timeoutMs = timeoutDefaultMs,
): Promise<ProbeResult> {
  try {
    const health = await askNode(target, dialects[target.dialect].healthPath, timeoutMs);
    await health.body.dump();
    if (health.statusCode !== 200) return answeredBadly(`health answered ${health.statusCode}`);
    const answer = await askNode(target, modelsPath, timeoutMs);
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      return answeredBadly(`models answered ${answer.statusCode}`);
    }
    return await probeModels(target, asked, await boundedJson(answer.body));
  } catch (error) {
    return failedProbe(error);
  }
}

function answeredBadly(reason: string): ProbeResult {
  return { up: false, reason, silent: false };
}

async function probeModels(target: ProbeTarget, asked: AskedModels, answer: unknown): Promise<ProbeResult> {
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

function failedProbe(error: unknown): ProbeResult {
  if (error instanceof SyntaxError) return answeredBadly('models answered no JSON');
  if (isOutOfFiles(error)) return { up: false, reason: 'not probed', silent: true, isOwnFault: true };
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ECONNREFUSED') return answeredBadly('connection refused');
  const slow = /TIMEOUT|ABORT/.test(code) || (error instanceof Error && error.name === 'TimeoutError');
  if (slow) return { up: false, reason: 'no answer in time', silent: true };
  const reason = /^[A-Z_]{1,40}$/.test(code) ? `unreachable (${code})` : 'unreachable';
  return { up: false, reason, silent: true };
}
