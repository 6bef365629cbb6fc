/**
 * Authenticates the records that processes exchange, because write access to a topic alone must not be enough. Each record
 * has an HMAC-SHA256 under the gateway token, in the header that carries the signature of a control log record. The token is
 * shared, so its holder can write under any name.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

export class RecordMac {
  readonly #domain: string;
  readonly #tokens: readonly string[];

  /**
   * The first token signs; all are accepted, so that tokens can be rotated. None may be empty.
   * `topic` separates the domains: a record is not valid on another topic.
   */
  constructor(topic: string, ...tokens: readonly [string, ...string[]]) {
    if (tokens.includes('')) throw new Error('a gateway token is empty');
    this.#domain = `${topic}\n`;
    this.#tokens = tokens;
  }

  of(value: Uint8Array): Buffer {
    return this.#mac(this.#tokens[0] ?? '', value);
  }

  /** Compares in constant time. */
  accepts(value: Uint8Array, given: Uint8Array): boolean {
    return this.#tokens.some((token) => {
      const wanted = this.#mac(token, value);
      return given.length === wanted.length && timingSafeEqual(given, wanted);
    });
  }

  #mac(token: string, value: Uint8Array): Buffer {
    return createHmac('sha256', token).update(this.#domain).update(value).digest();
  }
}
