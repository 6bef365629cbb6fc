/**
 * Collects an answer that is not streamed, within bounds, and converts it for the client. The body worker converts large
 * answers, because the node decides how large they are. This file knows neither the node nor the client.
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
  /** The tenant that the worker's queue schedules for. */
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
  /** Undefined unless the worker rebuilds the answer. Most answers are small and need no signal. */
  #abort: AbortController | undefined;

  constructor(options: WholeAnswerOptions) {
    this.#options = options;
    this.#bytes = new ByteCollector(options.memory, options.bytesMax);
  }

  /** Returns the reason if the piece does not fit, otherwise undefined. */
  add(piece: Buffer): NodeFailure | Refusal | undefined {
    if (this.#bytes.add(piece)) return undefined;
    return this.#bytes.isTooLarge
      ? new NodeFailure('too_large', 'the answer of the node is too large')
      : memoryRefusal(this.#options.memory.shortage, 'answer');
  }

  /** Rebuilds small answers at once, large ones on the body worker. Throws NodeFailure or Refusal, or rejects with one. */
  rebuild(): RebuiltAnswer | Promise<RebuiltAnswer> {
    const small = mayBeSmall(this.#bytes.length) ? parseSmallAnswer(this.#bytes.whole()) : 'large';
    if (small === 'large') return this.#rebuildOnWorker();
    const { facts, form } = this.#options;
    return wholeAnswer(small.value, facts, form);
  }

  /** Releases the memory and cancels a running rebuild. Idempotent. */
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
