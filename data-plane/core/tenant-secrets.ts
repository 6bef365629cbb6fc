/**
 * The salt of an organisation for the prefix caches of shared nodes, so that nobody can find out by the time to the first
 * token what others have asked. It follows from the token that all gateways share, so a prompt has one salt at all of them.
 */
import { createHmac } from 'node:crypto';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';

const saltsMax = 4096;

export class CacheSalts {
  readonly #key: Buffer;
  readonly #salts = new BoundedMap<string, string>(saltsMax, 'all');

  constructor(gatewayToken: string) {
    this.#key = createHmac('sha256', gatewayToken).update('headgate cache salt').digest();
  }

  /** 43 characters that are safe in a URL. */
  of(tenant: string): string {
    const known = this.#salts.get(tenant);
    if (known !== undefined) return known;
    return this.#salts.keep(tenant, createHmac('sha256', this.#key).update(tenant).digest('base64url'));
  }
}
