/** A large body for a node, in pieces that are let go as the connection takes them: what holds this object holds no more than is left. */

/** A whole one would be encrypted in one turn. */
const pieceBytesMax = 256 * 1024;

export class BodyPieces {
  readonly length: number;
  /** The connection has taken the last byte. */
  onTaken: (() => void) | undefined;
  #rest: Uint8Array | undefined;

  constructor(body: Uint8Array) {
    this.length = body.length;
    this.#rest = body;
  }

  /** The next piece, once the connection has room again; undefined behind the last one, which it has taken by then. */
  take(): Uint8Array | undefined {
    const rest = this.#rest;
    if (rest === undefined) {
      this.onTaken?.();
      return undefined;
    }
    const isLast = rest.length <= pieceBytesMax;
    this.#rest = isLast ? undefined : rest.subarray(pieceBytesMax);
    // The end of the last one may still be in the connection's buffer: as a copy it does not keep all of them.
    return isLast ? rest.slice() : rest.subarray(0, pieceBytesMax);
  }

  /** Drops what was not taken. */
  drop(): void {
    this.#rest = undefined;
  }
}
