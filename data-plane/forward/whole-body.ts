/**
 * An answer that is not streamed: gathered within bounds, rebuilt, and given to the client in one write. A large one is
 * parsed and built on the thread of shaping, because a node chooses how much it puts into one answer.
 */

import { Refusal } from '../../shared/decision/refusal.ts';
import { type RebuildContext, rebuild } from '../answer/rebuild.ts';
import type { Usage } from '../answer/usage.ts';
import type { Shaping } from '../body-worker/body-worker.ts';
import { mayBeSmall, parseSmallAnswer } from '../core/answer-json.ts';
import { NodeFailure } from '../core/node-failure.ts';
import { ByteCollector, isJsonType } from '../upstream/byte-collector.ts';
import { type Attempt, type BodyReader, failureOf } from './attempt.ts';

export interface WholeBodyOptions {
  readonly rebuildContext: RebuildContext;
  readonly shaping: Shaping;
  readonly owner: string;
}

/** The client left, or the attempt ended otherwise. */
const notWanted = new Error('the answer is not wanted any more');

export class WholeBody implements BodyReader {
  readonly #attempt: Attempt;
  readonly #options: WholeBodyOptions;
  readonly #bytes: ByteCollector;
  /** Undefined unless the answer is rebuilt on the other thread: most are small, and need no signal. */
  #abort: AbortController | undefined;
  #bodyByMs = Number.POSITIVE_INFINITY;

  constructor(attempt: Attempt, options: WholeBodyOptions) {
    this.#attempt = attempt;
    this.#options = options;
    this.#bytes = new ByteCollector(attempt.memory, attempt.bounds.answerBytesMax);
    attempt.call.waitAtMost(attempt.bounds.wholeAnswerMs, 'its answer');
  }

  accepts(contentType: string): boolean {
    return isJsonType(contentType);
  }

  onHead(): void {
    this.#bodyByMs = performance.now() + this.#attempt.bounds.wholeAnswerMs;
    this.#waitForMore();
  }

  onData(chunk: Buffer): void {
    if (this.#bytes.add(chunk)) this.#waitForMore();
    else if (this.#bytes.isTooLarge)
      this.#fail(new NodeFailure('too_large', 'the answer of the node is too large'));
    else this.#fail(this.#attempt.memory.refusal());
  }

  onEnd(): void {
    try {
      if (!this.#rebuildHere()) void this.#rebuildThere();
    } catch (error) {
      this.#fail(error);
    }
  }

  release(): void {
    this.#bytes.release();
    this.#abort?.abort(notWanted);
  }

  get #gone(): AbortController {
    this.#abort ??= new AbortController();
    return this.#abort;
  }

  /** False where it would take too long. */
  #rebuildHere(): boolean {
    if (!mayBeSmall(this.#bytes.length)) return false;
    const parsed = parseSmallAnswer(this.#bytes.whole());
    if (parsed === 'large') return false;
    const { body, usage } = rebuild(parsed.value, this.#options.rebuildContext);
    this.#complete(usage, JSON.stringify(body));
    return true;
  }

  /** Never rejects. */
  async #rebuildThere(): Promise<void> {
    const { rebuildContext: context, shaping, owner } = this.#options;
    const job = { kind: 'rebuild', context, blocks: this.#bytes.handOver() } as const;
    try {
      const { bytes, usage } = await shaping.run(job, 'rebuilt', { owner, signal: this.#gone.signal });
      this.#complete(usage, bytes);
    } catch (error) {
      if (error !== notWanted) this.#fail(error);
    }
  }

  #complete(usage: Usage, body: string | Uint8Array): void {
    this.#attempt.complete(usage, this.#attempt.client.answer(body));
  }

  #fail(error: unknown): void {
    if (error instanceof NodeFailure) this.#attempt.fail(failureOf(error));
    else if (error instanceof Refusal)
      this.#attempt.fail({ reason: error.reason, timedOut: false, breaks: false, refusal: error });
    else this.#attempt.onFailure(error instanceof Error ? error : new Error(String(error)));
  }

  /** The next piece, but no later than the whole: a node that sends a byte now and then is not waited for without end. */
  #waitForMore(): void {
    const leftMs = this.#bodyByMs - performance.now();
    this.#attempt.call.waitAtMost(
      Math.min(this.#attempt.bounds.betweenBytesMs, leftMs),
      'the rest of its answer',
    );
  }
}
