/**
 * A streamed answer: the node's events become frames of ours as they come.
 * The status is chosen only with the first good event, so that an early failure is still a proper refusal. Each data
 * event renews the wait for the next; comments do not. After the terminator nothing of the node is read any more.
 */

import type { StreamState } from '../answer/node-stream.ts';
import { SseReader } from '../answer/sse-reader.ts';
import type { Usage } from '../answer/usage.ts';
import type { NodeFailure } from '../core/node-failure.ts';
import { type Attempt, type BodyReader, failureOf } from './attempt.ts';

/** What a surface makes of a node's stream: ChatStream or MessagesStream. */
export interface SurfaceStream {
  readonly state: StreamState;
  readonly failure: NodeFailure | undefined;
  readonly usage: Usage;
  push(data: string): string[];
  end(): void;
  fail(failure: NodeFailure): void;
}

export class StreamedBody implements BodyReader {
  readonly #attempt: Attempt;
  readonly #stream: SurfaceStream;
  readonly #events: SseReader;
  #over = false;

  constructor(attempt: Attempt, stream: SurfaceStream) {
    this.#attempt = attempt;
    this.#stream = stream;
    this.#events = new SseReader({
      onData: (data) => this.#take(data),
      onFailure: (failure) => {
        this.#stream.fail(failure);
        this.#fail();
      },
    });
    attempt.call.waitAtMost(attempt.bounds.firstEventMs, 'a first event');
  }

  accepts(contentType: string): boolean {
    return /^text\/event-stream\s*(;|$)/i.test(contentType);
  }

  onHead(): void {
    // The wait for the first event goes on.
  }

  onData(chunk: Buffer): void {
    this.#events.push(chunk);
  }

  onEnd(): void {
    this.#stream.end();
    this.#fail();
  }

  release(): void {
    this.#over = true;
  }

  #take(data: string): void {
    if (this.#over) return;
    const frames = this.#stream.push(data);
    const { client, call, bounds } = this.#attempt;
    const { state } = this.#stream;
    if (state === 'failed') {
      this.#fail();
      return;
    }
    if (state === 'waiting') return;
    if (!client.started) client.startStream();
    for (const frame of frames) client.write(frame);
    if (state === 'completed') {
      this.#over = true;
      this.#attempt.complete(this.#stream.usage, client.end());
    } else call.waitAtMost(bounds.betweenEventsMs, 'a further event');
  }

  #fail(): void {
    const { failure } = this.#stream;
    if (this.#over || failure === undefined) return;
    this.#attempt.fail(failureOf(failure));
  }
}
