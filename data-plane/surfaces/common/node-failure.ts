/**
 * A node's answer that cannot be passed on: broken, cut, or an error in the place of an answer.
 * The caller decides what the client sees: a refusal before the first byte, a destroyed connection after it.
 * Its message contains nothing that the node wrote, because that may hold prompts and completions.
 */

export type NodeFailureKind =
  /** The node reported an error, as a body or as a frame. */
  | 'error'
  /** The stream ended before its terminator. */
  | 'cut'
  /** It sent a finish reason that means that it gave the request up. */
  | 'aborted'
  /** It is not of the shape. */
  | 'malformed'
  /** The answer, one event of it, or what it is made of exceeds a bound. */
  | 'too_large'
  /** The gateway had no memory for it. */
  | 'unheld'
  /** What the model wrote has no form in this surface. */
  | 'unusable';

export class NodeFailure extends Error {
  override readonly name = 'NodeFailure';
  readonly kind: NodeFailureKind;
  /** What the node gave as its error, for `contextErrorOf`; never to be logged or shown. */
  readonly detail: unknown;

  constructor(kind: NodeFailureKind, message: string, detail?: unknown) {
    super(message);
    this.kind = kind;
    Object.defineProperty(this, 'detail', { value: detail, enumerable: false });
  }
}
