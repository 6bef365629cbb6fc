/**
 * Base of every streamed answer: reads the node's stream, which the surface writes for the client. If the stream ends early,
 * the caller destroys the connection, which every client notices; nothing is appended (specification, Events).
 */

import { type AnswerFacts, malformedAnswer } from './chat-parts.ts';
import { NodeFailure } from './node-failure.ts';
import { type ChoiceDelta, NodeStream } from './node-stream.ts';

/** Usage that the node has reported so far, or an estimate. */
export type UsageSoFar = Pick<NodeStream, 'usage' | 'reportedUsage'>;

/** Writes the events of one answer in the surface's format. If it throws, the stream fails. */
export interface StreamWriter {
  /** Frames for one event of the node, often none. `data` is the event itself. */
  write(deltas: readonly ChoiceDelta[], soFar: UsageSoFar, data: string): string[];
  /** Frames of a proper end. */
  end(soFar: UsageSoFar): string[];
  /** Frame without content that keeps the connection open. If absent, a comment is sent. */
  readonly keepAlive?: string;
  /** Releases the memory charged for held text. Idempotent. */
  release?(): void;
}

export class SurfaceStream extends NodeStream {
  readonly kind = 'stream';
  readonly #writer: StreamWriter;

  constructor(facts: AnswerFacts, writer: StreamWriter) {
    super(facts);
    this.#writer = writer;
  }

  /** Takes the data of one event and returns the frames to write now. Never throws. Check `state` afterwards. */
  push(data: string): string[] {
    const { state } = this;
    if (state === 'completed' || state === 'failed') return [];
    try {
      const frames = this.#writer.write(this.read(data), this, data);
      if (this.state === 'completed') frames.push(...this.#writer.end(this));
      return frames;
    } catch (error) {
      this.fail(error instanceof NodeFailure ? error : malformedAnswer('a chunk cannot be read'));
      return [];
    }
  }

  /** Frame that keeps the client's connection open while the node is silent. */
  get keepAlive(): string {
    return this.#writer.keepAlive ?? ': keep-alive\n\n';
  }

  /** Idempotent. */
  release(): void {
    this.#writer.release?.();
  }
}
