/** Starts a body worker and wraps its messages and its end. If a body uses up the worker's heap, only the worker ends. */
import { errorCode } from '../../shared/runtime/error-code.ts';
import { withinMemory } from '../../shared/runtime/memory-limit.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import type { BodyWorkerRequest, BodyWorkerResponse } from './messages.ts';

/** Heap in MB. Enough for the texts of all bodies in the memory budget, at two bytes per character, and for one job. */
const heapMegabytesMax = 1536;

export interface WorkerListener {
  onResponse(response: BodyWorkerResponse): void;
  /** Called once, as the last call. `reason` never quotes a body. */
  onExit(reason: string): void;
}

export interface WorkerHandle {
  post(request: BodyWorkerRequest, transfer: readonly ArrayBuffer[]): void;
  /** Ends the worker at once, even during a job. */
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
