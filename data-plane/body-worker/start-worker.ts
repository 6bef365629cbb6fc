/** Starts a body worker, and reports its messages and its exit. A body that exhausts the heap ends only the worker. */
import { errorCode } from '../../shared/runtime/error-code.ts';
import { withinMemory } from '../../shared/runtime/memory-limit.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import type { BodyWorkerRequest, BodyWorkerResponse } from './messages.ts';

/** Heap limit in MB: the texts of all bodies in the memory budget, at two bytes per character, and one job. */
const heapMegabytesMax = 1536;

export interface WorkerListener {
  onResponse(response: BodyWorkerResponse): void;
  /** Called once, when the worker has exited, after all other calls. `reason` never quotes a body. */
  onExit(reason: string): void;
}

export interface WorkerHandle {
  post(request: BodyWorkerRequest, transfer: readonly ArrayBuffer[]): void;
  /** Stops the worker at once, even during a job. */
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
