/**
 * Streamed answer to a client. Reads the node's stream and passes it to a writer for the surface's format. If the stream ends
 * early, nothing is appended. Instead, the caller destroys the connection, which every client notices (specification,
 * Events).
 */

import { type AnswerFacts, malformedAnswer } from './chat-parts.ts';
import { NodeFailure } from './node-failure.ts';
import { type ChoiceDelta, NodeStream } from './node-stream.ts';

/** Usage of a stream that is still running: as the node has reported it so far, or an estimate. */
export type UsageSoFar = Pick<NodeStream, 'usage' | 'reportedUsage'>;

/** Writes the events of one response in its surface's format. If a method throws, the stream fails. */
export interface StreamWriter {
  /** Returns the frames (often none) for one event from the node. `data` is the event as received. */
  write(deltas: readonly ChoiceDelta[], soFar: UsageSoFar, data: string): string[];
  /** Returns the frames that end a complete stream. */
  end(soFar: UsageSoFar): string[];
  /** Frame without content, which keeps the client's connection open. The default is a comment. */
  readonly keepAlive?: string;
  /** Releases the memory charged for held text. May be called more than once. */
  release?(): void;
}

export class SurfaceStream extends NodeStream {
  readonly kind = 'stream';
  readonly #writer: StreamWriter;

  constructor(facts: AnswerFacts, writer: StreamWriter) {
    super(facts);
    this.#writer = writer;
  }

  /** Reads the data of one event and returns the frames to send now. Never throws: failures are in `state`. */
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

  get keepAlive(): string {
    return this.#writer.keepAlive ?? ': keep-alive\n\n';
  }

  /** Releases the memory that the stream holds for text. May be called more than once. */
  release(): void {
    this.#writer.release?.();
  }
}
