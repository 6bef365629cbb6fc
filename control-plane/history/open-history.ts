/** Starts the history on a thread of its own, and starts it again where the thread ends. */
import { Worker } from 'node:worker_threads';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { CommandError } from '../core/command-error.ts';
import { History, type HistoryAccess } from './history.ts';
import type { HistoryQueries } from './queries.ts';
import type { FromThread, ThreadData, ToThread } from './thread-messages.ts';

export interface HistoryThreadSettings extends ThreadData {
  readonly logger: Logger;
  /** Where no thread can be started. */
  openLog(): Promise<ControlLog>;
}

const restartMs = 1000;
const heapMegabytes = 512;

export function openHistoryThread(settings: HistoryThreadSettings): HistoryAccess {
  const { path, bytesMax, logger, openLog } = settings;
  // Node runs no TypeScript on a thread: from the sources it runs on this one.
  if (!import.meta.url.endsWith('.ts')) return new HistoryThread(settings);
  return new History({
    path,
    bytesMax,
    openLog,
    note: (message, because) => logger.warn({ because }, message),
  });
}

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

class HistoryThread implements HistoryAccess {
  readonly #settings: HistoryThreadSettings;
  readonly #waiting = new Map<number, Waiting>();
  #thread: Worker;
  #ended: Promise<void>;
  #asked = 0;
  #isStopping = false;

  constructor(settings: HistoryThreadSettings) {
    this.#settings = settings;
    this.#thread = this.#start();
    this.#ended = ended(this.#thread);
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
      this.#send({ cancel: id });
    };
    client.addEventListener('abort', cancel);
    try {
      const answer = new Promise<unknown>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
      this.#send({ id, name, args });
      return (await answer) as ReturnType<HistoryQueries[Name]>;
    } finally {
      client.removeEventListener('abort', cancel);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#send({ stop: true });
    await this.#ended;
  }

  #send(message: ToThread): void {
    this.#thread.postMessage(message);
  }

  #start(): Worker {
    const { path, logUrl, bytesMax, logger } = this.#settings;
    const data: ThreadData = { path, logUrl, bytesMax };
    const thread = new Worker(new URL('./history-thread.js', import.meta.url), {
      workerData: data,
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    });
    thread.on('message', (message: FromThread) => this.#receive(message));
    thread.on('error', (error) => logger.error({ err: error }, 'the thread of the history failed'));
    thread.once('exit', () => this.#onExit());
    return thread;
  }

  #receive(message: FromThread): void {
    if ('note' in message) {
      this.#settings.logger.warn({ because: message.because }, message.note);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ('answer' in message) waiting?.resolve(message.answer);
    else {
      const { type, message: text, next } = message.error;
      waiting?.reject(new CommandError(type, text, next === undefined ? {} : { next }));
    }
  }

  #onExit(): void {
    const error = new CommandError('Busy', 'the history has stopped', { next: 'try again in a few seconds' });
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    if (this.#isStopping) return;
    setTimeout(() => {
      if (this.#isStopping) return;
      this.#thread = this.#start();
      this.#ended = ended(this.#thread);
    }, restartMs).unref();
  }
}

function ended(thread: Worker): Promise<void> {
  return new Promise((resolve) => thread.once('exit', () => resolve()));
}
