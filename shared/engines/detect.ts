/** Detects which engine runs at a URL, by routes that only this engine has, and which models it serves. */
import type { Dialect } from '../../schemas/names.ts';
import { askNode, boundedJson } from './ask-node.ts';
import { modelsPath, servedModels } from './node-answers.ts';

export interface DetectedEngine {
  readonly dialect: Dialect;
  readonly models: readonly string[];
}

const timeoutMs = 5000;

/** Routes whose responses identify one engine each. They are tried in order, and the first match wins. */
const marks: readonly {
  readonly dialect: Dialect;
  readonly path: string;
  readonly isOurs: (answer: unknown) => boolean;
}[] = [
  { dialect: 'ollama', path: '/api/version', isOurs: (answer) => has(answer, 'version') },
  {
    dialect: 'llamacpp',
    path: '/props',
    isOurs: (answer) => has(answer, 'default_generation_settings') || has(answer, 'build_info'),
  },
  {
    dialect: 'sglang',
    path: '/get_server_info',
    isOurs: (answer) => has(answer, 'internal_states') || has(answer, 'model_path'),
  },
  { dialect: 'vllm', path: '/version', isOurs: (answer) => has(answer, 'version') },
];

/** Returns the engine and its models. Throws an Error that says what could not be reached. */
export async function detectEngine(url: string): Promise<DetectedEngine> {
  const base = baseUrl(url);
  const dialect = await detectDialect(base);
  if (dialect !== undefined) return { dialect, models: await listModels(base, dialect) };
  throw new Error(`no known inference server answers at ${base}; start one, or check the address`);
}

/** Returns the engine's dialect, or undefined if no known engine responds. Never throws. */
export async function detectDialect(base: string, credential?: string): Promise<Dialect | undefined> {
  for (const { dialect, path, isOurs } of marks) {
    const answer = await ask(base, path, credential);
    if (answer !== undefined && isOurs(answer)) return dialect;
  }
  return undefined;
}

/** Removes `/v1` and the last slash from a URL, so that paths can be appended. */
export function baseUrl(url: string): string {
  return url.replace(/\/(v1\/?)?$/, '');
}

async function listModels(base: string, dialect: Dialect): Promise<readonly string[]> {
  const answer = await ask(base, modelsPath);
  if (answer === undefined) throw new Error(`${base}${modelsPath} does not answer`);
  const models = servedModels(dialect, answer).map(({ name }) => name);
  if (models.length === 0) throw new Error(`${base} has not loaded a model; load one first`);
  return [...new Set(models)];
}

async function ask(url: string, path: string, credential?: string): Promise<unknown> {
  try {
    const { statusCode, body } = await askNode({ url, credential }, path, timeoutMs);
    if (statusCode === 200) return await boundedJson(body);
    await body.dump();
    return undefined;
  } catch {
    return undefined;
  }
}

function has(answer: unknown, member: string): boolean {
  return typeof answer === 'object' && answer !== null && Object.hasOwn(answer, member);
}
