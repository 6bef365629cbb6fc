/**
 * Starts one body worker, and wraps its messages and its exit. The heap of the worker is bounded, so that no body can
 * exhaust the memory of the process: a worker that reaches the bound exits alone.
 */
import { errorCode } from '../../shared/runtime/error-code.ts';
import { withinMemory } from '../../shared/runtime/memory-limit.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import type { BodyWorkerRequest, BodyWorkerResponse } from './messages.ts';

/** Fits the texts of all bodies in the budget, at two bytes a character, and the working memory of one job. */
const heapMegabytesMax = 1536;

export interface WorkerListener {
  onResponse(response: BodyWorkerResponse): void;
  /** Called once, as the last call. `reason` quotes nothing of a body. */
  onExit(reason: string): void;
}

export interface WorkerHandle {
  post(request: BodyWorkerRequest, transfer: readonly ArrayBuffer[]): void;
  /** Ends the worker at once, in the middle of a job too. */
  terminate(): void;
}

export type StartWorker = (listener: WorkerListener) => WorkerHandle;

export const startWorker: StartWorker = ({ onResponse, onExit }) => {
  const thread = new WorkerThread<BodyWorkerRequest, BodyWorkerResponse>({
    entry: new URL('./worker-entry.js', import.meta.url),
    limits: { maxOldGenerationSizeMb: withinMemory(heapMegabytesMax) },
    load: async () => (await import('./worker.ts')).serveJobs,
    onEvent: onResponse,
    isRef: false,
  });
  void thread.ended.then(({ error }) => onExit(errorCode(error) ?? error?.name ?? 'ended'));
  return {
    post: (request, transfer) => thread.post(request, transfer),
    terminate: () => void thread.terminate(),
  };
};
