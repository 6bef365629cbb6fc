/** Large request body that is sent to a node in pieces. Each piece is released once the connection has accepted it. */

/** Size of a piece in bytes. Encrypting a whole body at once would block the event loop for other requests. */
const pieceBytesMax = 256 * 1024;

export class BodyPieces {
  readonly length: number;
  /** Called when the connection has accepted the last byte of the body. */
  onTaken: (() => void) | undefined;
  #rest: Uint8Array | undefined;

  constructor(body: Uint8Array) {
    this.length = body.length;
    this.#rest = body;
  }

  /** Returns the next piece, or undefined after the last. Must not be called before the previous piece was accepted. */
  take(): Uint8Array | undefined {
    const rest = this.#rest;
    if (rest === undefined) {
      this.onTaken?.();
      return undefined;
    }
    const isLast = rest.length <= pieceBytesMax;
    this.#rest = isLast ? undefined : rest.subarray(pieceBytesMax);
    // Copy the last piece. Otherwise, the whole body would stay in memory while the connection buffers its end.
    return isLast ? rest.slice() : rest.subarray(0, pieceBytesMax);
  }

  drop(): void {
    this.#rest = undefined;
  }
}
