/**
 * An answer that is not streamed: gathered within bounds, built anew, and given to the client in one write.
 */
import { NodeFailure } from '../response/node-failure.ts';
import type { Usage } from '../response/usage.ts';
import { ByteCollector, isJsonType } from '../upstream/byte-collector.ts';
import { type Attempt, type BodyReader, failureOf } from './forward-attempt.ts';

/** Makes ours of the node's answer. Throws NodeFailure. */
export type Rebuild = (answer: unknown) => { readonly body: object; readonly usage: Usage };

export class WholeBody implements BodyReader {
  readonly #attempt: Attempt;
  readonly #rebuild: Rebuild;
  readonly #bytes: ByteCollector;
  #bodyByMs = Number.POSITIVE_INFINITY;

  constructor(attempt: Attempt, rebuild: Rebuild) {
    this.#attempt = attempt;
    this.#rebuild = rebuild;
    this.#bytes = new ByteCollector(attempt.pools.answerBytes, attempt.bounds.answerBytesMax);
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
    else this.#attempt.fail(failureOf(new NodeFailure('too_large', 'the answer of the node is too large')));
  }

  onEnd(): void {
    let rebuilt: ReturnType<Rebuild>;
    try {
      rebuilt = this.#rebuild(this.#bytes.json());
    } catch (error) {
      if (!(error instanceof NodeFailure)) throw error;
      this.#attempt.fail(failureOf(error));
      return;
    }
    const { client } = this.#attempt;
    this.#attempt.complete(rebuilt.usage, client.answer(JSON.stringify(rebuilt.body)));
  }

  release(): void {
    this.#bytes.release();
  }

  /** The next piece, but no later than the whole: a node that sends a byte now and then is not waited for for ever. */
  #waitForMore(): void {
    const leftMs = this.#bodyByMs - performance.now();
    this.#attempt.call.waitAtMost(
      Math.min(this.#attempt.bounds.betweenBytesMs, leftMs),
      'the rest of its answer',
    );
  }
}
