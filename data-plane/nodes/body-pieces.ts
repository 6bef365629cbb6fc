/** A large request body for a node, in pieces, each of which is released once the connection accepts it. */

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

  /** Next piece, once the connection has room again; undefined after the last one, which it has then accepted. */
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

  drop(): void {
    this.#rest = undefined;
  }
}
