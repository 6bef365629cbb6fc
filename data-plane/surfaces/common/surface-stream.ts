/**
 * The outline of every streamed answer: what a node's stream adds is read, and the surface writes it for the client.
 * An early end adds nothing, whatever the surface has for an end or an error (Events). The caller destroys the connection
 * then, which is the only end that every client notices.
 */

import { type AnswerFacts, malformed } from './chat-parts.ts';
import { NodeFailure } from './node-failure.ts';
import { type ChoiceDelta, NodeStream } from './node-stream.ts';

/** What the node has reported of the tokens so far, or an estimate of them. */
export type UsageSoFar = Pick<NodeStream, 'usage' | 'reportedUsage'>;

/** The events of one answer in the form of its surface. What it throws fails the stream. */
export interface StreamWriter {
  /** The frames for what one event of the node adds, often nothing; `data` is the event itself. */
  write(deltas: readonly ChoiceDelta[], soFar: UsageSoFar, data: string): string[];
  /** The frames of a proper end. */
  end(soFar: UsageSoFar): string[];
  /** A frame without content that keeps the connection open. Absent if the surface has none; then a comment is sent. */
  readonly keepAlive?: string;
  /** Of the memory that is charged for what it holds, where it holds any. Idempotent. */
  release?(): void;
}

export class SurfaceStream extends NodeStream {
  readonly kind = 'stream';
  readonly #writer: StreamWriter;

  constructor(facts: AnswerFacts, writer: StreamWriter) {
    super(facts);
    this.#writer = writer;
  }

  /** Takes the data of one event of the node, and gives the frames to write now. Never throws; check `state`. */
  push(data: string): string[] {
    const { state } = this;
    if (state === 'completed' || state === 'failed') return [];
    try {
      const frames = this.#writer.write(this.read(data), this, data);
      if (this.state === 'completed') frames.push(...this.#writer.end(this));
      return frames;
    } catch (error) {
      this.fail(error instanceof NodeFailure ? error : malformed('a chunk cannot be read'));
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
