/**
 * One request and its answer, as all that handles requests sees them. Nothing outside of this folder knows by which HTTP
 * server they came, so another server is another adapter of this interface.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { BodySource } from '../../shared/runtime/request-body.ts';

/** The head of a request, whole before anything is asked of it. */
export interface HttpHead {
  readonly method?: string | undefined;
  /** The target as it was sent. */
  readonly url?: string | undefined;
  /** By their names in lower case. */
  readonly headers: IncomingHttpHeaders;
  /** Name, value, name, value, as they were sent, each as often. */
  readonly rawHeaders: readonly string[];
}

export interface AnswerListener {
  /** The connection is gone before the answer has ended. */
  onGone(): void;
  /** The client reads slower than it is given; hold back until `onDrained`. */
  onBlocked(): void;
  onDrained(): void;
}

/** Name, value, name, value. */
export type Fields = readonly string[];

/**
 * It promises: a complete answer goes out in one write; what a stream is given within one turn goes out in one write;
 * the one that ends an answer learns whether its end was handed to a client still connected; and an early end is never a clean one.
 * A client that stops reading is cut off after a bounded wait. After its end, or without a client, nothing does anything.
 */
export interface ClientAnswer {
  /** The connection was lost before the answer had ended. */
  readonly isGone: boolean;
  /** When the first byte went out, or was about to, monotonic ms; undefined before. */
  readonly startedMs: number | undefined;
  /** A complete answer, without a body to HEAD; nothing where an answer has begun. Resolves as `end` does. */
  whole(
    status: number,
    type: string | undefined,
    fields: Fields,
    body: string | Uint8Array | undefined,
  ): Promise<boolean>;
  /** Begins a stream. The head goes out with the first bytes. */
  start(type: string, fields: Fields): void;
  write(text: string): void;
  /**
   * Ends a stream cleanly. Resolves when the last byte has been handed to the system for a client still connected, or
   * with false when the connection went first.
   */
  end(): Promise<boolean>;
  /** An early end: what was delivered is still sent, then the connection is destroyed, without the end of the body. */
  destroy(): void;
  /** Replaces the listener. */
  listen(listener: AnswerListener | undefined): void;
  /** A field of every answer to this request that has none of that name. */
  setField(name: string, value: string): void;
}

export interface Exchange extends BodySource {
  readonly head: HttpHead;
  /** What makes the head no HTTP that can be read in one way, as a sentence. */
  readonly fault: string | undefined;
  /** The address at the other end of the connection. */
  readonly peer: string | undefined;
  /** Aborted with ClientGone when the connection is lost. */
  readonly gone: AbortSignal;
  readonly answer: ClientAnswer;
  /** The connection ends with an answer already, of this request or of one before it. */
  readonly isLast: boolean;
  /** Ends the connection with the answer to this request. */
  makeLast(): void;
  /** Reads and drops what is left of the body of a refused request, so that the client gets to read the refusal; bounded. */
  discardBody(): void;
  /** Destroys the connection at once, whatever was written. */
  abort(): void;
}
