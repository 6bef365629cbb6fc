/**
 * One start of the thread of shaping: messages there and back, and the news of its end. Its heap is bounded, so that no
 * body can take the memory of the process; a thread that runs into the bound ends alone.
 */
import { MessageChannel, Worker } from 'node:worker_threads';
import { serveShaping } from './desk.ts';
import type { ShapingAnswer, ShapingRequest } from './messages.ts';

/** The texts of all bodies that may be held, at two bytes a character, and what one job needs beside them. */
const heapMegabytesMax = 1536;

export interface ThreadListener {
  onAnswer(answer: ShapingAnswer): void;
  /** Once, and nothing after it. `reason` quotes nothing of a body. */
  onEnd(reason: string): void;
}

export interface Thread {
  post(request: ShapingRequest, transfer: readonly ArrayBuffer[]): void;
  /** Ends it now, whatever it does. */
  end(): void;
}

export type StartThread = (listener: ThreadListener) => Thread;

export const startThread: StartThread = (listener) => {
  if (!import.meta.url.endsWith('.ts')) return startWorker(listener);
  // Node runs no TypeScript on a thread: from the sources the desk shares this one, over the same messages.
  const { port1, port2 } = new MessageChannel();
  serveShaping(port2);
  port1.on('message', (answer: ShapingAnswer) => listener.onAnswer(answer));
  port1.unref();
  port2.unref();
  return {
    post: (request, transfer) => port1.postMessage(request, transfer),
    end: () => {
      port1.close();
      listener.onEnd('ended');
    },
  };
};

function startWorker(listener: ThreadListener): Thread {
  const worker = new Worker(new URL('./shaping-thread.js', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax },
  });
  let reason = 'ended';
  worker.on('message', (answer: ShapingAnswer) => listener.onAnswer(answer));
  worker.on('messageerror', () => void worker.terminate());
  worker.on('error', (error: Error) => {
    reason = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  });
  worker.on('exit', () => listener.onEnd(reason));
  worker.unref();
  return {
    post: (request, transfer) => worker.postMessage(request, transfer),
    end: () => void worker.terminate(),
  };
}
