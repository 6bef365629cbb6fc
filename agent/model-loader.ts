/**
 * Loads and unloads models. Ollama downloads and deletes them, llama.cpp's router loads models from its disk, and vLLM loads
 * adapters from a configured folder. Every operation has a time limit.
 */
import { join } from 'node:path';
import type { Dialect } from '../schemas/names.ts';
import { sleep } from '../shared/runtime/retry.ts';
import { EngineError, type EngineTarget, oneLine, requestEngine, streamEngine } from './engine-http.ts';

export interface ModelLoader {
  /** Resolves once the engine has loaded the model, or rejects with the reason. `onPercent` receives integers. */
  load(model: string, onPercent: (percent: number) => void, signal: AbortSignal): Promise<void>;
  unload(model: string, signal: AbortSignal): Promise<void>;
}

export interface LoaderOptions extends EngineTarget {
  readonly loraFolder?: string | undefined;
}

/** Time in ms that a load may take without progress. It is long, because verifying a large file reports no progress. */
const progressTimeoutMs = 10 * 60_000;
const responseTimeoutMs = 30_000;
const pollIntervalMs = 500;

/** Returns a loader, or undefined for an engine that cannot load models through its API. */
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
      const pull = {
        method: 'POST',
        path: '/api/pull',
        body: { model, stream: true },
        timeoutMs: progressTimeoutMs,
        signal,
      } as const;
      let ended = false;
      for await (const line of parseLines(streamEngine(target, pull))) {
        const { error, status, completed, total } = line;
        if (error !== undefined) throw new Error(oneLine(String(error)) ?? 'the pull failed');
        if (typeof completed === 'number' && typeof total === 'number' && total > 0)
          onPercent(Math.max(0, Math.min(100, Math.floor((completed / total) * 100))));
        ended ||= status === 'success';
      }
      if (!ended) throw new Error('the pull ended early');
    },
    unload: async (model, signal) => {
      await requestEngine(target, {
        method: 'DELETE',
        path: '/api/delete',
        body: { model },
        timeoutMs: responseTimeoutMs,
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

/** Parses a stream that contains one JSON object per line. Throws if a line is invalid. */
async function* parseLines(parts: AsyncIterable<string>): AsyncGenerator<PullLine, void, undefined> {
  let rest = '';
  for await (const part of parts) {
    rest += part;
    if (rest.length > lineCharactersMax && !part.includes('\n'))
      throw new Error('the engine sent an endless line');
    // Collects parts until a line is complete, because splitting after every part is slow if lines arrive byte by byte.
    if (!part.includes('\n')) continue;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > lineCharactersMax) throw new Error('the engine sent an endless line');
    for (const line of lines) if (line.trim() !== '') yield asPullLine(line);
  }
  if (rest.trim() !== '') yield asPullLine(rest);
}

function asPullLine(line: string): PullLine {
  const value: unknown = JSON.parse(line);
  return typeof value === 'object' && value !== null ? value : {};
}

function routerLoader(target: EngineTarget): ModelLoader {
  const post = async (path: string, model: string, signal: AbortSignal): Promise<void> => {
    await requestEngine(target, {
      method: 'POST',
      path,
      body: { model },
      timeoutMs: responseTimeoutMs,
      signal,
    });
  };
  return {
    load: async (model, _onPercent, signal) => {
      await post('/models/load', model, signal).catch(rethrowWithHint);
      await awaitRouterLoad(target, model, signal);
    },
    unload: (model, signal) => post('/models/unload', model, signal),
  };
}

function rethrowWithHint(error: unknown): never {
  if (error instanceof EngineError && error.status === 404)
    throw new Error('the model is not on its disk, or it is not a router', { cause: error });
  throw error;
}

async function awaitRouterLoad(target: EngineTarget, model: string, signal: AbortSignal): Promise<void> {
  const until = performance.now() + progressTimeoutMs;
  while (performance.now() < until) {
    const state = await routerState(target, model, signal);
    if (state === 'loaded') return;
    if (state === 'failed') throw new Error('the engine could not load it');
    await sleep(pollIntervalMs, signal);
  }
  throw new Error('it was not loaded in time');
}

type RouterEntry = { id?: unknown; status?: { value?: unknown; failed?: unknown } } | null;

async function routerState(target: EngineTarget, model: string, signal: AbortSignal): Promise<unknown> {
  const text = await requestEngine(target, { path: '/v1/models', timeoutMs: responseTimeoutMs, signal });
  const { data } = JSON.parse(text) as { data?: unknown };
  const entries: RouterEntry[] = Array.isArray(data) ? data : [];
  const status = entries.find((entry) => entry?.id === model)?.status;
  return status?.failed === true ? 'failed' : status?.value;
}

/** Loads adapters from subfolders of the configured folder. The name pattern excludes paths that lead out of the folder. */
function adapterLoader(target: EngineTarget, folder: string): ModelLoader {
  return {
    load: async (model, _onPercent, signal) => {
      if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(model)) throw new Error('the name cannot be a folder');
      const body = { lora_name: model, lora_path: join(folder, model) };
      const path = '/v1/load_lora_adapter';
      await requestEngine(target, { method: 'POST', path, body, timeoutMs: progressTimeoutMs, signal });
    },
    unload: async (model, signal) => {
      const path = '/v1/unload_lora_adapter';
      const body = { lora_name: model };
      await requestEngine(target, { method: 'POST', path, body, timeoutMs: responseTimeoutMs, signal });
    },
  };
}
