/**
 * The right to write to the status topic is not enough to be believed: each record carries an HMAC-SHA256 by the gateway
 * token, which travels beside it as a signature of the control log does. Who holds the token may report as anyone.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Keeps a MAC of a status record from being one of anything else. */
const domain = 'headgate.status\n';

export class StatusMac {
  readonly #tokens: readonly string[];

  /** `tokens`: the first one makes MACs; the others are accepted too, while tokens are rotated. None may be empty. */
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
