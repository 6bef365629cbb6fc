/**
 * A large body for a node, in pieces that are let go as the connection takes them: a frame that holds this object holds no
 * more than is left, and the request object of the HTTP client stays in memory as long as its answer.
 */

/** A whole one would be encrypted in one turn. */
const pieceBytesMax = 256 * 1024;

export class BodyPieces implements AsyncIterable<Uint8Array>, AsyncIterator<Uint8Array, undefined> {
  readonly length: number;
  /** The connection has taken the last byte. */
  onTaken: (() => void) | undefined;
  #rest: Uint8Array | undefined;

  constructor(body: Uint8Array) {
    this.length = body.length;
    this.#rest = body;
  }

  [Symbol.asyncIterator](): this {
    return this;
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

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const value = this.take();
    return Promise.resolve(value === undefined ? { done: true, value } : { done: false, value });
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.drop();
    return Promise.resolve({ done: true, value: undefined });
  }
}
