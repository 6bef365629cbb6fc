/** Large request body that is sent to a node in pieces. Each piece is released once the connection has accepted it. */

/** Size of a piece in bytes. Encrypting a whole body in one turn of the event loop would block other requests. */
const pieceBytesMax = 256 * 1024;

export class BodyPieces {
  readonly length: number;
  /** Called when the connection has accepted the last byte. */
  onTaken: (() => void) | undefined;
  #rest: Uint8Array | undefined;

  constructor(body: Uint8Array) {
    this.length = body.length;
    this.#rest = body;
  }

  /** Returns the next piece, or undefined after the last. Call it only when the connection has accepted the previous one. */
  take(): Uint8Array | undefined {
    const rest = this.#rest;
    if (rest === undefined) {
      this.onTaken?.();
      return undefined;
    }
    const isLast = rest.length <= pieceBytesMax;
    this.#rest = isLast ? undefined : rest.subarray(pieceBytesMax);
    // Copy the last piece. While the connection buffers its end, the whole body would otherwise stay in memory.
    return isLast ? rest.slice() : rest.subarray(0, pieceBytesMax);
  }

  drop(): void {
    this.#rest = undefined;
  }
}
