/**
 * A part of the process on a thread of its own, over messages. Node 20 runs no TypeScript on a thread, so from the sources the
 * same part runs on this thread, over the same messages.
 */
import { basename } from 'node:path';
import { MessageChannel, type MessagePort, type ResourceLimits, Worker } from 'node:worker_threads';
import { within } from './retry.ts';

const isBuilt = !import.meta.url.endsWith('.ts');

export interface ThreadOptions<Event> {
  /** The built file that the thread runs, in the folder of the module that names it. */
  readonly entry: URL;
  readonly data?: unknown;
  readonly limits?: ResourceLimits;
  /** Loads what the entry file does with the port of its thread: only where it runs on this thread. */
  readonly load: () => Promise<(port: MessagePort) => unknown>;
  readonly onEvent: (event: Event) => void;
  /** Does the thread keep the process alive? */
  readonly isRef: boolean;
}

export interface ThreadEnd {
  /** Left out where it ran on this thread. */
  readonly exitCode?: number;
  /** What it threw. */
  readonly error?: Error;
}

/** It posts `{ kind: 'closed' }` as its last event where it is asked to close. */
export class WorkerThread<Request, Event> {
  /** Resolves once it has ended, by itself or from outside. */
  readonly ended: Promise<ThreadEnd>;
  readonly #port: MessagePort | Worker;

  /** Throws where the system grants no other thread. */
  constructor({ entry, data, limits = {}, load, onEvent, isRef }: ThreadOptions<Event>) {
    this.#port = isBuilt
      ? new Worker(entry, { workerData: data, resourceLimits: limits })
      : servedHere(load, isRef);
    this.#port.on('message', onEvent);
    this.#port.on('messageerror', () => void this.terminate());
    if (!isRef) this.#port.unref();
    this.ended = awaitEnd(this.#port);
  }

  /** `moved`: buffers that nobody here uses again, so that they are not copied. */
  post(request: Request, moved: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(request, moved);
  }

  /** Asks it to close, and ends it where it does not in time. Resolves in twice the time at most. */
  async close(request: Request, withinMs: number): Promise<'closed' | 'ended' | 'late'> {
    const closed = new Promise<'closed'>((resolve) => {
      this.#port.on('message', ({ kind }: { readonly kind?: unknown }) => {
        if (kind === 'closed') resolve('closed');
      });
    });
    this.post(request);
    const ended = this.ended.then(() => 'ended' as const);
    const how = await within(Promise.race([closed, ended]), withinMs);
    // It ends once its call into the file system does.
    if (how === 'late') await within(this.terminate(), withinMs);
    return how;
  }

  /** Ends it at once, in the middle of its work too. */
  async terminate(): Promise<void> {
    if (this.#port instanceof Worker) await this.#port.terminate();
    else this.#port.close();
  }
}

/** What is posted before it is loaded waits in the port. */
function servedHere(load: ThreadOptions<never>['load'], isRef: boolean): MessagePort {
  const { port1, port2 } = new MessageChannel();
  void load().then((serve) => {
    void serve(port2);
    if (!isRef) port2.unref();
  });
  return port1;
}

/** Handles the `error` event of a thread, which would throw here. */
function awaitEnd(port: MessagePort | Worker): Promise<ThreadEnd> {
  return new Promise((resolve) => {
    if (!(port instanceof Worker)) {
      port.on('close', () => resolve({}));
      return;
    }
    let error: Error | undefined;
    port.on('error', (thrown) => {
      error = thrown instanceof Error ? thrown : new Error(String(thrown));
    });
    port.on('exit', (exitCode) => resolve({ exitCode, ...(error && { error }) }));
  });
}

/** One task on a thread, whose entry file posts the result. `task` does the same here. */
export interface ThreadTask<Result> {
  /** Rejects with what the task throws, and where the thread ends without a result. */
  readonly result: Promise<Result>;
  end(): Promise<void>;
}

export function taskOnThread<Result>(
  options: Pick<ThreadOptions<Result>, 'entry' | 'data' | 'isRef'> & {
    readonly task: () => Result | Promise<Result>;
  },
): ThreadTask<Result> {
  const { task, ...rest } = options;
  if (!isBuilt) return { result: Promise.resolve().then(task), end: async () => undefined };
  let onEvent: (result: Result) => void = () => undefined;
  const posted = new Promise<Result>((resolve) => {
    onEvent = resolve;
  });
  const thread = new WorkerThread<never, Result>({ ...rest, load: async () => () => undefined, onEvent });
  const ended = thread.ended.then(({ exitCode, error }) => {
    throw error ?? new Error(`the thread of ${basename(options.entry.pathname)} ended with ${exitCode}`);
  });
  return { result: Promise.race([posted, ended]), end: () => thread.terminate() };
}
