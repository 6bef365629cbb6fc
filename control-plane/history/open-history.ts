/** Starts the history on a thread of its own, and starts it again where the thread ends. */
import type { Logger } from '../../shared/runtime/logger.ts';
import { WorkerThread } from '../../shared/runtime/worker-thread.ts';
import { CommandError } from '../core/command-error.ts';
import type { HistoryAccess } from './history.ts';
import type { HistoryQueries } from './queries.ts';
import type { FromThread, ThreadData, ToThread } from './thread-messages.ts';

interface HistoryThreadSettings extends ThreadData {
  readonly logger: Logger;
}

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
  #thread: WorkerThread<ToThread, FromThread>;
  #asked = 0;
  #isStopping = false;

  constructor(settings: HistoryThreadSettings) {
    this.#settings = settings;
    this.#thread = this.#start();
  }

  async ask<Name extends keyof HistoryQueries>(
    name: Name,
    args: Parameters<HistoryQueries[Name]>,
    client: AbortSignal,
  ): Promise<ReturnType<HistoryQueries[Name]>> {
    client.throwIfAborted();
    const id = ++this.#asked;
    const cancel = (): void => {
      this.#waiting.get(id)?.reject(client.reason);
      this.#waiting.delete(id);
      this.#thread.post({ cancel: id });
    };
    client.addEventListener('abort', cancel);
    try {
      const answer = new Promise<unknown>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
      this.#thread.post({ id, name, args });
      return (await answer) as ReturnType<HistoryQueries[Name]>;
    } finally {
      client.removeEventListener('abort', cancel);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#thread.close({ stop: true }, stopTimeoutMs);
    await this.#thread.terminate();
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
    if (fault) this.#settings.logger.error({ err: fault }, 'the thread of the history failed');
    const error = new CommandError('Busy', 'the history has stopped', { next: 'try again in a few seconds' });
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    if (this.#isStopping) return;
    setTimeout(() => {
      if (!this.#isStopping) this.#thread = this.#start();
    }, restartMs).unref();
  }
}
