/** Reads how many requests an engine has in flight. All kinds of engines except Ollama report this. */
import type { Dialect } from '../schemas/names.ts';
import { type EngineTarget, requestEngine } from './engine-http.ts';

interface Source {
  readonly path: string;
  /** Extracts the number of requests in flight from a response, or returns undefined if it is missing. */
  count(text: string): number | undefined;
}

const sources: Readonly<Record<Dialect, Source | undefined>> = {
  vllm: {
    path: '/metrics',
    count: (text) => sum(text, ['vllm:num_requests_running', 'vllm:num_requests_waiting']),
  },
  sglang: {
    path: '/metrics',
    count: (text) => sum(text, ['sglang:num_running_reqs', 'sglang:num_queue_reqs']),
  },
  llamacpp: { path: '/slots', count: busySlots },
  ollama: undefined,
};

const timeoutMs = 1000;
const countMax = 1_000_000;

/** Reads the number of requests in flight, or undefined if the engine does not report it or is unreachable. Never throws. */
export async function readInFlight(dialect: Dialect, target: EngineTarget): Promise<number | undefined> {
  const source = sources[dialect];
  if (source === undefined) return undefined;
  try {
    const signal = AbortSignal.timeout(2 * timeoutMs);
    const count = source.count(await requestEngine(target, { path: source.path, timeoutMs, signal }));
    return count !== undefined && count >= 0 && count <= countMax ? Math.round(count) : undefined;
  } catch {
    return undefined;
  }
}

/** Adds up the values of all series with one of these names in a response in the Prometheus text format. */
function sum(text: string, names: readonly string[]): number | undefined {
  let total: number | undefined;
  for (const line of text.split('\n')) {
    const found = /^([\w:]+)(?:\{.*\})? (\S+)/.exec(line);
    if (found && names.includes(found[1] ?? '')) total = (total ?? 0) + Number(found[2]);
  }
  return total === undefined || Number.isNaN(total) ? undefined : total;
}

function busySlots(text: string): number | undefined {
  const slots: unknown = JSON.parse(text);
  if (!Array.isArray(slots)) return undefined;
  return slots.filter((slot: { is_processing?: unknown } | null) => slot?.is_processing === true).length;
}
