/**
 * Error for a node's response that is broken, incomplete or itself an error. The caller decides what the client sees: a
 * refusal if nothing has been sent yet, or else a destroyed connection. The message never contains text from the node, which
 * may quote prompts.
 */

export type NodeFailureKind =
  /** The node reported an error, in the body of its response or within its stream. */
  | 'error'
  /** The stream ended before it was complete. */
  | 'cut'
  /** The finish reason says that the node gave up on the request. */
  | 'aborted'
  | 'malformed'
  /** The response, or a part of it, exceeds a bound. */
  | 'too_large'
  /** The gateway had too little memory to hold the response. */
  | 'unheld'
  /** The client's API cannot represent what the model wrote. */
  | 'unusable';

export class NodeFailure extends Error {
  override readonly name = 'NodeFailure';
  readonly kind: NodeFailureKind;
  /** Error that the node sent. A refusal may be derived from it, but it must never be logged or shown. */
  readonly detail: unknown;

  constructor(kind: NodeFailureKind, message: string, detail?: unknown) {
    super(message);
    this.kind = kind;
    Object.defineProperty(this, 'detail', { value: detail, enumerable: false });
  }
}
