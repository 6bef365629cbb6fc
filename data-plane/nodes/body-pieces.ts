/**
 * A large request body for a node, split into pieces. Each piece is released once the connection accepts it, so that this
 * object only keeps the remaining bytes.
 */

/** Bytes per piece. A whole body would be encrypted in one turn of the event loop and block it. */
const pieceBytesMax = 256 * 1024;

export class BodyPieces {
  readonly length: number;
  /** Called once the connection has accepted the last byte. */
  onTaken: (() => void) | undefined;
  #rest: Uint8Array | undefined;

  constructor(body: Uint8Array) {
    this.length = body.length;
    this.#rest = body;
  }

  /**
   * Returns the next piece. The connection calls this when it has room again. Returns undefined after the last piece, which
   * the connection has accepted by then.
   */
  take(): Uint8Array | undefined {
    const rest = this.#rest;
    if (rest === undefined) {
      this.onTaken?.();
      return undefined;
    }
    const isLast = rest.length <= pieceBytesMax;
    this.#rest = isLast ? undefined : rest.subarray(pieceBytesMax);
    // The connection may still buffer the end of the last piece. A copy keeps that buffer from retaining the whole body.
    return isLast ? rest.slice() : rest.subarray(0, pieceBytesMax);
  }

  /** Drops the remaining bytes. */
  drop(): void {
    this.#rest = undefined;
  }
}
