/**
 * The thread of shaping as the thread of requests sees it. It starts with the first large body, does one job at a time,
 * and organisations take turns, so that one with many large bodies waits for itself. A job that takes too long, or too
 * much memory, ends the thread: whoever has a text on it is refused with 503, and the next job starts another.
 */
import { faultFields } from '../../shared/process/fault.ts';
import { Refusal } from '../request/refusal.ts';
import { NodeFailure } from '../response/node-failure.ts';
import { FairQueue } from './fair-queue.ts';
import type { ShapingAnswer, ShapingJob, ShapingResult } from './messages.ts';
import { type StartThread, startThread, type Thread } from './thread.ts';

export interface ShapingOptions {
  readonly start?: StartThread;
  /** For one job, from its start. */
  readonly jobMsMax?: number;
  /** A thread without work and without texts ends after this, and gives its memory back. */
  readonly idleMs?: number;
  /** The thread ended by itself, or had to be ended. */
  readonly onLost?: (reason: string) => void;
}

export interface JobOptions {
  /** Who waits for the job; owners take turns. */
  readonly owner: string;
  /** Nobody waits any more; the promise rejects with its reason. */
  readonly gone: AbortSignal;
  /** Where the text is that the job is about. */
  readonly thread?: Thread;
}

interface Entry extends JobOptions {
  readonly id: number;
  readonly job: ShapingJob;
  readonly resolve: (done: Done) => void;
  readonly reject: (error: unknown) => void;
  readonly onGone: () => void;
}

interface Done {
  readonly id: number;
  readonly result: ShapingResult;
  readonly thread: Thread;
}

type ResultOf<Kind extends ShapingResult['kind']> = Extract<ShapingResult, { readonly kind: Kind }>;

export class Shaping {
  readonly #options: Required<ShapingOptions>;
  readonly #queue = new FairQueue<Entry>();
  #thread: Thread | undefined;
  #running: Entry | undefined;
  #held = 0;
  #jobs = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: ShapingOptions = {}) {
    this.#options = {
      start: startThread,
      jobMsMax: 60_000,
      idleMs: 60_000,
      onLost: () => undefined,
      ...options,
    };
  }

  /** Texts held now. */
  get held(): number {
    return this.#held;
  }

  /** Rejects as the job refuses, with the reason of `gone`, or with InferenceUnavailableError where the thread is lost. */
  async run<Kind extends ShapingResult['kind']>(
    job: ShapingJob,
    kind: Kind,
    options: JobOptions,
  ): Promise<ResultOf<Kind>> {
    return resultOf((await this.#done(job, options)).result, kind);
  }

  /** A body becomes a request whose text stays on the thread, under a number there, until it is dropped. */
  async hold(
    job: Extract<ShapingJob, { readonly kind: 'shape' }>,
    options: JobOptions,
  ): Promise<ResultOf<'shaped'> & { readonly held: number; readonly thread: Thread }> {
    const { id, result, thread } = await this.#done(job, options);
    return { ...resultOf(result, 'shaped'), held: id, thread };
  }

  drop(held: number, thread: Thread): void {
    if (thread !== this.#thread) return;
    this.#held -= 1;
    thread.post({ kind: 'drop', held }, []);
    this.#wait();
  }

  /** Refuses what waits, and ends the thread. */
  close(): void {
    this.#isClosed = true;
    for (const entry of this.#queue.drain()) this.#settle(entry, () => entry.reject(lost('closing')));
    this.#thread?.end();
  }

  #done(job: ShapingJob, options: JobOptions): Promise<Done> {
    this.#jobs += 1;
    const id = this.#jobs;
    return new Promise((resolve, reject) => {
      const entry: Entry = { ...options, id, job, resolve, reject, onGone: () => this.#giveUp(entry) };
      const isLost = options.thread !== undefined && options.thread !== this.#thread;
      if (options.gone.aborted || isLost || this.#isClosed) {
        reject(options.gone.aborted ? options.gone.reason : lost('its thread ended'));
        return;
      }
      options.gone.addEventListener('abort', entry.onGone, { once: true });
      // What ends a request comes before what begins one.
      this.#queue.add(options.owner, entry, options.thread !== undefined);
      this.#next();
    });
  }

  #next(): void {
    if (this.#running !== undefined) return;
    const entry = this.#queue.next();
    if (entry === undefined) {
      this.#wait();
      return;
    }
    if (this.#isClosed || (entry.thread !== undefined && entry.thread !== this.#thread)) {
      this.#settle(entry, () => entry.reject(lost('its thread ended')));
      this.#next();
      return;
    }
    const thread = this.#threadFor(entry);
    if (thread === undefined) {
      this.#next();
      return;
    }
    this.#running = entry;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#thread?.end(), this.#options.jobMsMax).unref();
    const { id, job } = entry;
    const blocks = 'blocks' in job ? job.blocks.map(({ buffer }) => buffer) : [];
    thread.post({ kind: 'job', id, job }, blocks);
  }

  /** Undefined where the system grants no thread: the job is refused, and the next one tries again. */
  #threadFor(entry: Entry): Thread | undefined {
    try {
      this.#thread ??= this.#open();
      return this.#thread;
    } catch (error) {
      const { code, type } = faultFields(error);
      const reason = code ?? type;
      this.#settle(entry, () => entry.reject(lost(reason)));
      this.#options.onLost(reason);
      return undefined;
    }
  }

  #open(): Thread {
    const thread: Thread = this.#options.start({
      onAnswer: (answer) => this.#take(answer, thread),
      onEnd: (reason) => this.#lose(thread, reason),
    });
    return thread;
  }

  #take({ id, result }: ShapingAnswer, thread: Thread): void {
    const entry = this.#running;
    if (entry?.id !== id || thread !== this.#thread) return;
    this.#running = undefined;
    clearTimeout(this.#timer);
    if (result.kind === 'shaped') this.#held += 1;
    // Its client left meanwhile.
    if (result.kind === 'shaped' && entry.gone.aborted) this.drop(id, thread);
    this.#settle(entry, () => entry.resolve({ id, result, thread }));
    this.#next();
  }

  #giveUp(entry: Entry): void {
    this.#queue.delete(entry.owner, entry);
    this.#settle(entry, () => entry.reject(entry.gone.reason));
  }

  #settle(entry: Entry, settle: () => void): void {
    entry.gone.removeEventListener('abort', entry.onGone);
    settle();
  }

  #lose(thread: Thread, reason: string): void {
    if (thread !== this.#thread) return;
    this.#thread = undefined;
    this.#held = 0;
    clearTimeout(this.#timer);
    const entry = this.#running;
    this.#running = undefined;
    if (entry !== undefined) this.#settle(entry, () => entry.reject(lost(reason)));
    if (entry !== undefined && !this.#isClosed) this.#options.onLost(reason);
    this.#next();
  }

  #wait(): void {
    if (this.#running !== undefined || this.#held > 0) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#rest(), this.#options.idleMs).unref();
  }

  /** The next job finds no thread that is about to end. */
  #rest(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.end();
  }
}

function resultOf<Kind extends ShapingResult['kind']>(result: ShapingResult, kind: Kind): ResultOf<Kind> {
  if (result.kind === kind) return result as ResultOf<Kind>;
  switch (result.kind) {
    case 'refused':
      throw new Refusal(result.type, result.message, { reason: result.reason });
    case 'node-failure':
      throw new NodeFailure(result.failure, result.message, result.detail);
    default:
      throw new Error(`shaping failed: ${result.kind === 'fault' ? result.name : result.kind}`);
  }
}

function lost(reason: string): Refusal {
  const message = 'The service could not finish work on this request. Try again.';
  return new Refusal('InferenceUnavailableError', message, { reason: `shaping: ${reason}` });
}
