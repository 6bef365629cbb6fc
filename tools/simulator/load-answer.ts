/** How each engine reports its load: requests in progress and in the queue. Ollama does not report it. */
import type { Dialect } from '../../schemas/names.ts';
import { bodyPlan, jsonPlan, type Plan } from './plan.ts';

export interface SimLoad {
  readonly running: number;
  readonly waiting: number;
}

/** The answer to a GET, or undefined where the path is not the engine's for this. */
export function answerLoad(path: string, dialect: Dialect, { running, waiting }: SimLoad): Plan | undefined {
  switch (`${dialect} ${path}`) {
    case 'vllm /metrics':
      return metrics({ 'vllm:num_requests_running': running, 'vllm:num_requests_waiting': waiting });
    case 'sglang /metrics':
      return metrics({ 'sglang:num_running_reqs': running, 'sglang:num_queue_reqs': waiting });
    case 'llamacpp /slots':
      return jsonPlan(
        200,
        Array.from({ length: Math.max(1, running) }, (_, id) => ({ id, is_processing: id < running })),
      );
    default:
      return undefined;
  }
}

function metrics(gauges: Readonly<Record<string, number>>): Plan {
  const lines = Object.entries(gauges).map(
    ([name, value]) => `# TYPE ${name} gauge\n${name}{engine="0"} ${value}.0\n`,
  );
  return bodyPlan(200, lines.join(''), 'text/plain; version=0.0.4; charset=utf-8');
}
