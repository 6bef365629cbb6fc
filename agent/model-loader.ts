/**
 * How a model gets into each kind of engine, and out again. Ollama pulls and deletes; llama.cpp's router loads and unloads
 * what it has on its disk; vLLM takes adapters from a folder that the agent was told. Every wait is bounded.
 */
import { join } from 'node:path';
import type { Dialect } from '../schemas/names.ts';
import { sleep } from '../shared/runtime/retry.ts';
import { askEngine, EngineRefusal, type EngineTarget, oneLine, streamEngine } from './engine-http.ts';

export interface ModelLoader {
  /** Resolves once the engine has it; rejects with an Error that says why not. Percents are whole. */
  load(model: string, onPercent: (percent: number) => void, signal: AbortSignal): Promise<void>;
  unload(model: string, signal: AbortSignal): Promise<void>;
}

export interface LoaderOptions extends EngineTarget {
  readonly loraFolder?: string | undefined;
}

/** Between two signs of life of a load: a large file may be verified in silence. */
const silenceMsMax = 10 * 60_000;
const answerMsMax = 30_000;
const lookAgainMs = 500;

/** undefined: models get into this engine in no way that is known here. */
export function modelLoader(dialect: Dialect, options: LoaderOptions): ModelLoader | undefined {
  switch (dialect) {
    case 'ollama':
      return ollamaLoader(options);
    case 'llamacpp':
      return routerLoader(options);
    case 'vllm':
      return options.loraFolder === undefined ? undefined : adapterLoader(options, options.loraFolder);
    case 'sglang':
      return undefined;
  }
}

function ollamaLoader(target: EngineTarget): ModelLoader {
  return {
    load: async (model, onPercent, signal) => {
      const question = {
        method: 'POST',
        path: '/api/pull',
        body: { model, stream: true },
        timeoutMs: silenceMsMax,
        signal,
      } as const;
      let ended = false;
      for await (const line of linesOf(streamEngine(target, question))) {
        const { error, status, completed, total } = line;
        if (error !== undefined) throw new Error(oneLine(String(error)) ?? 'the pull failed');
        if (typeof completed === 'number' && typeof total === 'number' && total > 0)
          onPercent(Math.max(0, Math.min(100, Math.floor((completed / total) * 100))));
        ended ||= status === 'success';
      }
      if (!ended) throw new Error('the pull ended early');
    },
    unload: async (model, signal) => {
      await askEngine(target, {
        method: 'DELETE',
        path: '/api/delete',
        body: { model },
        timeoutMs: answerMsMax,
        signal,
      });
    },
  };
}

interface PullLine {
  readonly error?: unknown;
  readonly status?: unknown;
  readonly completed?: unknown;
  readonly total?: unknown;
}

const lineCharactersMax = 100_000;

/** The JSON objects of a stream, one a line. Throws on a line that is none. */
async function* linesOf(parts: AsyncIterable<string>): AsyncGenerator<PullLine, void, undefined> {
  let rest = '';
  for await (const part of parts) {
    rest += part;
    if (rest.length > lineCharactersMax && !part.includes('\n'))
      throw new Error('the engine writes a line without end');
    // A line that comes byte by byte is put together once.
    if (!part.includes('\n')) continue;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > lineCharactersMax) throw new Error('the engine writes a line without end');
    for (const line of lines) if (line.trim() !== '') yield asPullLine(line);
  }
  if (rest.trim() !== '') yield asPullLine(rest);
}

function asPullLine(line: string): PullLine {
  const value = JSON.parse(line) as unknown;
  return typeof value === 'object' && value !== null ? value : {};
}

function routerLoader(target: EngineTarget): ModelLoader {
  const tell = async (path: string, model: string, signal: AbortSignal): Promise<void> => {
    await askEngine(target, { method: 'POST', path, body: { model }, timeoutMs: answerMsMax, signal });
  };
  return {
    load: async (model, _onPercent, signal) => {
      await tell('/models/load', model, signal).catch(withRouterHint);
      await routerLoaded(target, model, signal);
    },
    unload: (model, signal) => tell('/models/unload', model, signal),
  };
}

function withRouterHint(error: unknown): never {
  if (error instanceof EngineRefusal && error.status === 404)
    throw new Error('no such model on its disk, or no router', { cause: error });
  throw error;
}

async function routerLoaded(target: EngineTarget, model: string, signal: AbortSignal): Promise<void> {
  const until = performance.now() + silenceMsMax;
  while (performance.now() < until) {
    const state = await routerState(target, model, signal);
    if (state === 'loaded') return;
    if (state === 'failed') throw new Error('the engine could not load it');
    await sleep(lookAgainMs, signal);
  }
  throw new Error('it was not loaded in time');
}

type RouterEntry = { id?: unknown; status?: { value?: unknown; failed?: unknown } } | null;

async function routerState(target: EngineTarget, model: string, signal: AbortSignal): Promise<unknown> {
  const text = await askEngine(target, { path: '/v1/models', timeoutMs: answerMsMax, signal });
  const { data } = JSON.parse(text) as { data?: unknown };
  const entries = Array.isArray(data) ? (data as RouterEntry[]) : [];
  const status = entries.find((entry) => entry?.id === model)?.status;
  return status?.failed === true ? 'failed' : status?.value;
}

/** Adapters are folders below one that an operator chose; a name can never lead out of it. */
function adapterLoader(target: EngineTarget, folder: string): ModelLoader {
  return {
    load: async (model, _onPercent, signal) => {
      if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(model)) throw new Error('the name can be no folder');
      const body = { lora_name: model, lora_path: join(folder, model) };
      const path = '/v1/load_lora_adapter';
      await askEngine(target, { method: 'POST', path, body, timeoutMs: silenceMsMax, signal });
    },
    unload: async (model, signal) => {
      const path = '/v1/unload_lora_adapter';
      const body = { lora_name: model };
      await askEngine(target, { method: 'POST', path, body, timeoutMs: answerMsMax, signal });
    },
  };
}
