/** Secrets per organisation and purpose, derived from the gateways' common token and so never stored. */
import { createHmac } from 'node:crypto';
import { BoundedMap } from '../../../shared/runtime/bounded-map.ts';

/**
 * `cache salt` separates organisations on shared nodes' prefix caches, so that the time to the first token does not reveal
 * what others asked. `sealed thoughts` encrypts reasoning, so that only its own organisation can use it again.
 */
export type SecretPurpose = 'cache salt' | 'sealed thoughts';

const secretsMax = 4096;

export class TenantSecrets {
  readonly #key: Buffer;
  readonly #secrets = new BoundedMap<string, string>(secretsMax, 'all');

  constructor(gatewayToken: string, purpose: SecretPurpose) {
    this.#key = createHmac('sha256', gatewayToken).update(`headgate ${purpose}`).digest();
  }

  /** Secret of 32 bytes as 43 URL-safe characters. */
  of(tenant: string): string {
    const known = this.#secrets.get(tenant);
    if (known !== undefined) return known;
    return this.#secrets.keep(tenant, createHmac('sha256', this.#key).update(tenant).digest('base64url'));
  }
}
