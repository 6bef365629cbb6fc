/**
 * Queues jobs for the body worker, a thread that parses large bodies so that they never block other requests. One job runs at
 * a time, and the owners take turns, so an organisation with many large bodies delays only itself. If a job exceeds its
 * deadline or uses too much memory, the worker is stopped. Requests whose texts that worker kept are then refused with status
 * 503, and the next job starts a new worker.
 */

import { Refusal } from '../../shared/decision/refusal.ts';
import { faultFields } from '../../shared/runtime/fault.ts';
import { TurnQueue } from '../../shared/runtime/turn-queue.ts';
import { NodeFailure } from '../surfaces/common/node-failure.ts';
import type { BodyJob, BodyResult, BodyWorkerResponse } from './messages.ts';
import { type StartWorker, startWorker, type WorkerHandle } from './start-worker.ts';

export interface BodyWorkerOptions {
  readonly start?: StartWorker;
  /** Maximum time in ms that a job may take, once it has started. */
  readonly jobTimeoutMs?: number;
  /** Time in ms after which a worker with no jobs and no stored texts is stopped, to free its memory. */
  readonly idleTimeoutMs?: number;
  /** Called if the worker thread ends during a job, for example because the job took too long. */
  readonly onLost?: (reason: string) => void;
}

export interface JobOptions {
  /** Organisation, visitor or node on whose behalf the job runs. Owners take turns. */
  readonly owner: string;
  /** Cancels the job, whose promise then rejects with the signal's abort reason. */
  readonly signal: AbortSignal;
  /** Worker that keeps the text which the job needs. Undefined if the job needs no kept text. */
  readonly worker?: WorkerHandle;
}

interface Entry extends JobOptions {
  readonly id: number;
  readonly job: BodyJob;
  readonly resolve: (completion: Completion) => void;
  readonly reject: (error: unknown) => void;
  readonly onAbort: () => void;
}

interface Completion {
  readonly id: number;
  readonly result: BodyResult;
  readonly worker: WorkerHandle;
}

type ResultKind<Kind extends BodyResult['kind']> = Extract<BodyResult, { readonly kind: Kind }>;

export class BodyWorker {
  readonly #options: Required<BodyWorkerOptions>;
  readonly #queue = new TurnQueue<Entry>();
  #worker: WorkerHandle | undefined;
  #running: Entry | undefined;
  #retainedTexts = 0;
  #lastJobId = 0;
  /** Timer that stops the worker if a job exceeds its deadline or the worker has been idle for too long. */
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: BodyWorkerOptions = {}) {
    this.#options = {
      start: startWorker,
      jobTimeoutMs: 60_000,
      idleTimeoutMs: 60_000,
      onLost: () => undefined,
      ...options,
    };
  }

  get retainedTexts(): number {
    return this.#retainedTexts;
  }

  /** Runs a job. Rejects with its error, the signal's abort reason, or `InferenceUnavailableError` if the worker is lost. */
  async run<Kind extends BodyResult['kind']>(
    job: BodyJob,
    kind: Kind,
    options: JobOptions,
  ): Promise<ResultKind<Kind>> {
    return expectResult((await this.#submit(job, options)).result, kind);
  }

  /** Validates a request's body. The worker keeps its text under the id `textId` until `discard` is called. */
  async retain(
    job: Extract<BodyJob, { readonly kind: 'shape' }>,
    options: JobOptions,
  ): Promise<ResultKind<'shaped'> & { readonly textId: number; readonly worker: WorkerHandle }> {
    const { id, result, worker } = await this.#submit(job, options);
    return { ...expectResult(result, 'shaped'), textId: id, worker };
  }

  discard(textId: number, worker: WorkerHandle): void {
    if (worker !== this.#worker) return;
    this.#retainedTexts -= 1;
    worker.post({ kind: 'discard', textId }, []);
    this.#stopWhenIdle();
  }

  /** Rejects all queued jobs and ends the worker. */
  close(): void {
    this.#isClosed = true;
    for (let entry = this.#queue.take(); entry !== undefined; entry = this.#queue.take())
      this.#settle(entry, () => entry.reject(unavailable(entry, 'closing')));
    this.#worker?.terminate();
  }

  #submit(job: BodyJob, options: JobOptions): Promise<Completion> {
    this.#lastJobId += 1;
    const id = this.#lastJobId;
    return new Promise((resolve, reject) => {
      const entry: Entry = { ...options, id, job, resolve, reject, onAbort: () => this.#cancel(entry) };
      const isLost = options.worker !== undefined && options.worker !== this.#worker;
      if (options.signal.aborted || isLost || this.#isClosed) {
        reject(options.signal.aborted ? options.signal.reason : unavailable(entry, 'its worker ended'));
        return;
      }
      options.signal.addEventListener('abort', entry.onAbort, { once: true });
      // Jobs that continue a request run before jobs that begin a new one.
      this.#queue.add(options.owner, entry, options.worker !== undefined);
      this.#dispatch();
    });
  }

  #dispatch(): void {
    if (this.#running !== undefined) return;
    const entry = this.#queue.take();
    if (entry === undefined) {
      this.#stopWhenIdle();
      return;
    }
    if (this.#isClosed || (entry.worker !== undefined && entry.worker !== this.#worker)) {
      this.#settle(entry, () => entry.reject(unavailable(entry, 'its worker ended')));
      this.#dispatch();
      return;
    }
    const worker = this.#workerFor(entry);
    if (worker === undefined) {
      this.#dispatch();
      return;
    }
    this.#running = entry;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#worker?.terminate(), this.#options.jobTimeoutMs).unref();
    const { id, job } = entry;
    const transferList = 'blocks' in job ? job.blocks.map(({ buffer }) => buffer) : [];
    worker.post({ kind: 'job', id, job }, transferList);
  }

  /** Returns the worker for a job, or undefined if no thread can be started, in which case only this job is refused. */
  #workerFor(entry: Entry): WorkerHandle | undefined {
    try {
      this.#worker ??= this.#start();
      return this.#worker;
    } catch (error) {
      const { code, type } = faultFields(error);
      const reason = code ?? type;
      this.#settle(entry, () => entry.reject(unavailable(entry, reason)));
      this.#options.onLost(reason);
      return undefined;
    }
  }

  #start(): WorkerHandle {
    const worker: WorkerHandle = this.#options.start({
      onResponse: (response) => this.#complete(response, worker),
      onExit: (reason) => this.#fail(worker, reason),
    });
    return worker;
  }

  #complete({ id, result }: BodyWorkerResponse, worker: WorkerHandle): void {
    const entry = this.#running;
    if (entry?.id !== id || worker !== this.#worker) return;
    this.#running = undefined;
    clearTimeout(this.#timer);
    if (result.kind === 'shaped') this.#retainedTexts += 1;
    // Discard the text here, because the caller cancelled the job while it ran and so does not know of the text.
    if (result.kind === 'shaped' && entry.signal.aborted) this.discard(id, worker);
    this.#settle(entry, () => entry.resolve({ id, result, worker }));
    this.#dispatch();
  }

  #cancel(entry: Entry): void {
    this.#queue.remove(entry.owner, entry);
    this.#settle(entry, () => entry.reject(entry.signal.reason));
  }

  #settle(entry: Entry, settle: () => void): void {
    entry.signal.removeEventListener('abort', entry.onAbort);
    settle();
  }

  #fail(worker: WorkerHandle, reason: string): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    this.#retainedTexts = 0;
    clearTimeout(this.#timer);
    const entry = this.#running;
    this.#running = undefined;
    if (entry !== undefined) this.#settle(entry, () => entry.reject(unavailable(entry, reason)));
    if (entry !== undefined && !this.#isClosed) this.#options.onLost(reason);
    this.#dispatch();
  }

  #stopWhenIdle(): void {
    if (this.#running !== undefined || this.#retainedTexts > 0) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#stop(), this.#options.idleTimeoutMs).unref();
  }

  /** Stops the worker. Forgets it first, so that it gets no further jobs. */
  #stop(): void {
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.terminate();
  }
}

function expectResult<Kind extends BodyResult['kind']>(result: BodyResult, kind: Kind): ResultKind<Kind> {
  if (result.kind === kind) return result as ResultKind<Kind>;
  switch (result.kind) {
    case 'refused':
      throw new Refusal(result.cause, result.message);
    case 'node-failure':
      throw new NodeFailure(result.failure, result.message, result.detail);
    default:
      throw new Error(`the body worker failed: ${result.kind === 'fault' ? result.name : result.kind}`);
  }
}

function unavailable({ job }: Entry, detail: string): Refusal {
  const message = 'The service could not finish this request. Try again.';
  return new Refusal(job.kind === 'shape' ? 'unshaped' : 'unfinished', message, { detail });
}
