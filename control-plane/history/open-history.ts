/** Starts the history thread when the first question arrives, or soon after the process starts. Restarts it if it ends. */
import type { Logger } from '../../shared/runtime/logger.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import { CommandError } from '../core/command-error.ts';
import type { HistoryAccess } from './history.ts';
import type { HistoryQueries } from './queries.ts';
import type { FromThread, ThreadData, ToThread } from './thread-messages.ts';

interface HistoryThreadSettings extends ThreadData {
  readonly logger: Logger;
}

/** Delay in ms before the thread starts, because starting it takes a third as much CPU time as starting the process. */
const startMs = 10_000;
const restartMs = 1000;
const stopTimeoutMs = 10_000;
const heapMegabytes = 512;

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

export class HistoryThread implements HistoryAccess {
  readonly #settings: HistoryThreadSettings;
  readonly #waiting = new Map<number, Waiting>();
  #thread: WorkerThread<ToThread, FromThread> | undefined;
  #starts: NodeJS.Timeout;
  #asked = 0;
  #isStopping = false;

  constructor(settings: HistoryThreadSettings) {
    this.#settings = settings;
    this.#starts = setTimeout(() => this.#started(), startMs).unref();
  }

  async ask<Name extends keyof HistoryQueries>(
    name: Name,
    args: Parameters<HistoryQueries[Name]>,
    client: AbortSignal,
  ): Promise<ReturnType<HistoryQueries[Name]>> {
    client.throwIfAborted();
    if (this.#isStopping) throw stopped();
    const thread = this.#started();
    const id = ++this.#asked;
    const cancel = (): void => {
      this.#waiting.get(id)?.reject(client.reason);
      this.#waiting.delete(id);
      thread.post({ cancel: id });
    };
    client.addEventListener('abort', cancel);
    try {
      const answer = new Promise<unknown>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
      thread.post({ id, name, args });
      return (await answer) as ReturnType<HistoryQueries[Name]>;
    } finally {
      client.removeEventListener('abort', cancel);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#starts);
    await this.#thread?.close({ stop: true }, stopTimeoutMs);
    await this.#thread?.terminate();
  }

  /** Returns the thread, and starts it first if it is not running. */
  #started(): WorkerThread<ToThread, FromThread> {
    this.#thread ??= this.#start();
    return this.#thread;
  }

  #start(): WorkerThread<ToThread, FromThread> {
    const { path, logUrl, bytesMax } = this.#settings;
    const data: ThreadData = { path, logUrl, bytesMax };
    const thread = new WorkerThread<ToThread, FromThread>({
      entry: new URL('./worker-entry.js', import.meta.url),
      data,
      limits: { maxOldGenerationSizeMb: heapMegabytes },
      load: async () => {
        const { serveHistory } = await import('./history-thread.ts');
        return (port) => serveHistory(port, data);
      },
      onEvent: (message) => this.#receive(message),
      isRef: true,
    });
    void thread.ended.then(({ error }) => this.#onEnd(error));
    return thread;
  }

  #receive(message: FromThread): void {
    if ('note' in message) {
      this.#settings.logger.warn({ because: message.because }, message.note);
      return;
    }
    if ('kind' in message) return;
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ('answer' in message) waiting?.resolve(message.answer);
    else {
      const { type, message: text, next } = message.error;
      waiting?.reject(new CommandError(type, text, next === undefined ? {} : { next }));
    }
  }

  #onEnd(fault: Error | undefined): void {
    if (fault) this.#settings.logger.error({ err: fault }, 'the history thread failed');
    for (const { reject } of this.#waiting.values()) reject(stopped());
    this.#waiting.clear();
    if (this.#isStopping) return;
    this.#starts = setTimeout(() => {
      this.#thread = this.#start();
    }, restartMs).unref();
  }
}

const stopped = () =>
  new CommandError('Busy', 'the history has stopped', { next: 'try again in a few seconds' });
