/**
 * Authenticates status records, because write access to the topic alone must not be enough. Each record has an HMAC-SHA256
 * under the gateway token, in the header that carries the signature of a control log record. The token is shared, so its
 * holder can report under any name.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Domain separation: the MAC is not valid for any other use of the token. */
const domain = 'headgate.status\n';

export class StatusMac {
  readonly #tokens: readonly string[];

  /** The first token signs; all are accepted, so that tokens can be rotated. None may be empty. */
  constructor(...tokens: readonly [string, ...string[]]) {
    if (tokens.includes('')) throw new Error('a gateway token is empty');
    this.#tokens = tokens;
  }

  of(value: Uint8Array): Buffer {
    return mac(this.#tokens[0] ?? '', value);
  }

  /** Compares in constant time. */
  accepts(value: Uint8Array, given: Uint8Array): boolean {
    return this.#tokens.some((token) => {
      const wanted = mac(token, value);
      return given.length === wanted.length && timingSafeEqual(given, wanted);
    });
  }
}

function mac(token: string, value: Uint8Array): Buffer {
  return createHmac('sha256', token).update(domain).update(value).digest();
}
