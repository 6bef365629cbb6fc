/**
 * A node's answer that is broken, incomplete or an error. The caller decides what the client sees: a refusal before the first
 * byte, a destroyed connection after it. The message never contains text from the node, which may include prompts.
 */

export type NodeFailureKind =
  /** The node reported an error, as a body or as a frame. */
  | 'error'
  /** The stream ended before its terminator. */
  | 'cut'
  /** The finish reason means that the node gave up the request. */
  | 'aborted'
  /** The answer does not have the expected format. */
  | 'malformed'
  /** The answer, one of its events, or its contents exceed a bound. */
  | 'too_large'
  /** The gateway had no memory for the answer. */
  | 'unheld'
  /** This surface cannot represent the model's output. */
  | 'unusable';

export class NodeFailure extends Error {
  override readonly name = 'NodeFailure';
  readonly kind: NodeFailureKind;
  /** The node's error, for `contextErrorOf`. Never log or show it. */
  readonly detail: unknown;

  constructor(kind: NodeFailureKind, message: string, detail?: unknown) {
    super(message);
    this.kind = kind;
    Object.defineProperty(this, 'detail', { value: detail, enumerable: false });
  }
}
