/**
 * Collects a whole response (not a stream) within bounds and converts it for the client. Large responses are converted by the
 * body worker, because the node decides how large they are. This file knows neither the node nor the client.
 */

import type { Refusal } from '../../shared/decision/refusal.ts';
import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import type { BodyWorker } from '../body-worker/body-worker.ts';
import { mayBeSmall, parseSmallAnswer } from '../surfaces/common/answer-json.ts';
import type { AnswerFacts } from '../surfaces/common/chat-parts.ts';
import { memoryRefusal } from '../surfaces/common/memory-refusal.ts';
import { NodeFailure } from '../surfaces/common/node-failure.ts';
import type { RebuiltBody } from '../surfaces/common/surface.ts';
import { type AnswerForm, wholeAnswer } from '../surfaces/surfaces.ts';
import { ByteCollector } from './byte-collector.ts';

export interface WholeAnswerOptions {
  readonly facts: AnswerFacts;
  readonly form: AnswerForm;
  readonly bodyWorker: BodyWorker;
  /** Organisation for which the body worker queues the conversion. */
  readonly owner: string;
  readonly memory: MemoryBudget;
  readonly bytesMax: number;
}

export interface RebuiltAnswer extends Omit<RebuiltBody, 'body'> {
  readonly body: string | Uint8Array;
}

const released = new Error('the answer is not needed any more');

export class WholeAnswer {
  readonly kind = 'whole';
  readonly #options: WholeAnswerOptions;
  readonly #bytes: ByteCollector;
  /** Cancels the conversion on the body worker. Undefined for small responses, which need no worker. */
  #abort: AbortController | undefined;

  constructor(options: WholeAnswerOptions) {
    this.#options = options;
    this.#bytes = new ByteCollector(options.memory, options.bytesMax);
  }

  /** Adds a part of the response's body. Returns the reason if the part does not fit, otherwise undefined. */
  add(piece: Buffer): NodeFailure | Refusal | undefined {
    if (this.#bytes.add(piece)) return undefined;
    return this.#bytes.isTooLarge
      ? new NodeFailure('too_large', 'the answer of the node is too large')
      : memoryRefusal(this.#options.memory.shortage, 'answer');
  }

  /** Converts a small response at once, a large one on the body worker. Fails with a `NodeFailure` or a `Refusal`. */
  rebuild(): RebuiltAnswer | Promise<RebuiltAnswer> {
    const small = mayBeSmall(this.#bytes.length) ? parseSmallAnswer(this.#bytes.whole()) : 'large';
    if (small === 'large') return this.#rebuildOnWorker();
    const { facts, form } = this.#options;
    return wholeAnswer(small.value, facts, form);
  }

  /** Releases the response's memory and cancels its conversion if one is running. May be called more than once. */
  release(): void {
    this.#bytes.release();
    this.#abort?.abort(released);
  }

  async #rebuildOnWorker(): Promise<RebuiltAnswer> {
    const { facts, form, bodyWorker, owner } = this.#options;
    const job = { kind: 'rebuild', facts, form, blocks: this.#bytes.takeChunks() } as const;
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const { bytes, usage, oddForm } = await bodyWorker.run(job, 'rebuilt', { owner, signal });
    return { body: bytes, usage, oddForm };
  }
}
