/**
 * Runs a part of the process on a thread of its own and exchanges messages with it. A process that runs from source runs the
 * part on the calling thread with the same messages, because Node 20 cannot run TypeScript on a thread.
 */
import { basename } from 'node:path';
import { MessageChannel, type MessagePort, type ResourceLimits, Worker } from 'node:worker_threads';
import { within } from './retry.ts';

/** Whether parts run on threads of their own. Simulations turn this off, because they decide the order of messages. */
export const threads = { areUsed: !import.meta.url.endsWith('.ts') };

export interface ThreadOptions<Event> {
  /** Built file that the thread runs, relative to the calling module. */
  readonly entry: URL;
  readonly data?: unknown;
  readonly limits?: ResourceLimits;
  /** Loads the function that the entry file calls with its port. Used only if the part runs on the calling thread. */
  readonly load: () => Promise<(port: MessagePort) => unknown>;
  readonly onEvent: (event: Event) => void;
  /** Whether the thread keeps the process alive. */
  readonly isRef: boolean;
}

export interface ThreadEnd {
  /** Exit code of the thread. Absent if the part ran on the calling thread. */
  readonly exitCode?: number;
  readonly error?: Error;
}

/** A thread with typed messages. When asked to close, its entry must post `{ kind: 'closed' }` as its last event. */
export class WorkerThread<Request, Event> {
  /** Resolves once the thread has ended for any reason. */
  readonly ended: Promise<ThreadEnd>;
  readonly #port: MessagePort | Worker;

  /** Starts the thread. Throws if the system refuses to create one. */
  constructor({ entry, data, limits = {}, load, onEvent, isRef }: ThreadOptions<Event>) {
    this.#port = threads.areUsed
      ? new Worker(entry, { workerData: data, resourceLimits: limits })
      : servedHere(load, isRef);
    this.#port.on('message', onEvent);
    this.#port.on('messageerror', () => void this.terminate());
    if (!isRef) this.#port.unref();
    this.ended = awaitEnd(this.#port);
  }

  /** Posts a request. `moved` lists buffers that are transferred instead of copied, so the caller can no longer use them. */
  post(request: Request, moved: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(request, moved);
  }

  /** Asks the thread to close, and terminates it if it takes too long. Resolves after at most twice `withinMs`. */
  async close(request: Request, withinMs: number): Promise<'closed' | 'ended' | 'late'> {
    const closed = new Promise<'closed'>((resolve) => {
      this.#port.on('message', ({ kind }: { readonly kind?: unknown }) => {
        if (kind === 'closed') resolve('closed');
      });
    });
    this.post(request);
    const ended = this.ended.then(() => 'ended' as const);
    const how = await within(Promise.race([closed, ended]), withinMs);
    // Wait once more, because a thread ends only when the file system call that it is in returns.
    if (how === 'late') await within(this.terminate(), withinMs);
    return how;
  }

  /** Ends the thread immediately, even in the middle of its work. */
  async terminate(): Promise<void> {
    if (this.#port instanceof Worker) await this.#port.terminate();
    else this.#port.close();
  }
}

/** Runs the part on the calling thread. Messages posted before it is loaded wait in the port. */
function servedHere(load: ThreadOptions<never>['load'], isRef: boolean): MessagePort {
  const { port1, port2 } = new MessageChannel();
  void load().then((serve) => {
    void serve(port2);
    if (!isRef) port2.unref();
  });
  return port1;
}

/** Resolves when the thread has ended. Also handles its `error` event, which would otherwise be thrown here. */
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

/** A task that runs on a thread and posts its result. */
export interface ThreadTask<Result> {
  /** Resolves to the task's result. Rejects with the task's error, or if the thread ends without a result. */
  readonly result: Promise<Result>;
  end(): Promise<void>;
}

export function taskOnThread<Result>(
  options: Pick<ThreadOptions<Result>, 'entry' | 'data' | 'isRef'> & {
    readonly task: () => Result | Promise<Result>;
  },
): ThreadTask<Result> {
  const { task, ...rest } = options;
  if (!threads.areUsed) return { result: Promise.resolve().then(task), end: async () => undefined };
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
