/**
 * Starts one body worker, and wraps its messages and its exit. The heap of the worker is bounded, so that no body can
 * exhaust the memory of the process: a worker that reaches the bound exits alone.
 */
import { MessageChannel, Worker } from 'node:worker_threads';
import type { BodyWorkerRequest, BodyWorkerResponse } from './messages.ts';
import { serveJobs } from './worker.ts';

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

export const startWorker: StartWorker = (listener) => {
  if (!import.meta.url.endsWith('.ts')) return startOnThread(listener);
  // Node runs no TypeScript on a worker thread: from the sources, the worker runs on the main thread over the same messages.
  const { port1, port2 } = new MessageChannel();
  serveJobs(port2);
  port1.on('message', (response: BodyWorkerResponse) => listener.onResponse(response));
  port1.unref();
  port2.unref();
  return {
    post: (request, transfer) => port1.postMessage(request, transfer),
    terminate: () => {
      port1.close();
      listener.onExit('ended');
    },
  };
};

function startOnThread(listener: WorkerListener): WorkerHandle {
  const worker = new Worker(new URL('./worker-entry.js', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax },
  });
  let reason = 'ended';
  worker.on('message', (response: BodyWorkerResponse) => listener.onResponse(response));
  worker.on('messageerror', () => void worker.terminate());
  worker.on('error', (error: Error) => {
    reason = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  });
  worker.on('exit', () => listener.onExit(reason));
  worker.unref();
  return {
    post: (request, transfer) => worker.postMessage(request, transfer),
    terminate: () => void worker.terminate(),
  };
}
