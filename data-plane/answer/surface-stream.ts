/**
 * The outline of every streamed answer: what a node's stream adds is read, and the surface writes it for the client.
 * An early end adds nothing, whatever the surface has for an end or an error (Events). The caller destroys the connection
 * then, which is the only end that every client notices.
 */
import { NodeFailure } from '../core/node-failure.ts';
import { type AnswerFacts, malformed } from './chat-parts.ts';
import { type ChoiceDelta, NodeStream, type StreamState } from './node-stream.ts';
import type { Usage } from './usage.ts';

/** What the node has reported of the tokens so far, or an estimate of them. */
export type UsageSoFar = Pick<NodeStream, 'usage' | 'reportedUsage'>;

/** The events of one answer in the form of its surface. What it throws fails the stream. */
export interface StreamWriter {
  /** The frames for what one event of the node adds, often nothing; `data` is the event itself. */
  write(deltas: readonly ChoiceDelta[], soFar: UsageSoFar, data: string): string[];
  /** The frames of a proper end. */
  end(soFar: UsageSoFar): string[];
  /** Of the memory that is charged for what it holds, where it holds any. Idempotent. */
  release?(): void;
}

export class SurfaceStream {
  readonly kind = 'stream';
  readonly #node: NodeStream;
  readonly #writer: StreamWriter;

  constructor(facts: AnswerFacts, writer: StreamWriter) {
    this.#node = new NodeStream(facts);
    this.#writer = writer;
  }

  get state(): StreamState {
    return this.#node.state;
  }

  get failure(): NodeFailure | undefined {
    return this.#node.failure;
  }

  /** To be recorded only when the stream is completed and its last frame has been written (Events). */
  get usage(): Usage {
    return this.#node.usage;
  }

  /** Takes the data of one event of the node, and gives the frames to write now. Never throws; check `state`. */
  push(data: string): string[] {
    const node = this.#node;
    const { state } = node;
    if (state === 'completed' || state === 'failed') return [];
    try {
      const frames = this.#writer.write(node.push(data), node, data);
      if (node.state === 'completed') frames.push(...this.#writer.end(node));
      return frames;
    } catch (error) {
      this.fail(error instanceof NodeFailure ? error : malformed('a chunk cannot be read'));
      return [];
    }
  }

  /** The node's body has ended, cleanly or not. */
  end(): void {
    this.#node.end();
  }

  /** Something else ended the stream: a time-out, a lost connection. Without effect after the end. */
  fail(failure: NodeFailure): void {
    this.#node.fail(failure);
  }

  /** Idempotent. */
  release(): void {
    this.#writer.release?.();
  }
}
