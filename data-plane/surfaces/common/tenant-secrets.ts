/**
 * Secrets per organisation that all gateways share. They are derived from the gateways' common token, so every gateway
 * computes the same ones and nothing is stored. Secrets for different purposes differ.
 */
import { createHmac } from 'node:crypto';
import { BoundedMap } from '../../../shared/runtime/bounded-map.ts';

/**
 * `cache salt` separates the prefix caches of shared nodes, so that nobody can infer from the time to the first token what
 * others have asked. `sealed thoughts` is the key that encrypts reasoning for a client, so that only its own organisation can
 * use the reasoning again.
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
