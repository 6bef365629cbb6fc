/** Secrets for each organisation and purpose. They are derived from the token that all gateways share, so none is stored. */
import { createHmac } from 'node:crypto';
import { BoundedMap } from '../../../shared/runtime/bounded-map.ts';

/**
 * `cache salt` keeps organisations apart in the prefix caches of shared nodes, so that the time to the first token does not
 * reveal other organisations' prompts. `sealed thoughts` encrypts reasoning, so that only the same organisation can send it
 * again.
 */
export type SecretPurpose = 'cache salt' | 'sealed thoughts';

const secretsMax = 4096;

export class TenantSecrets {
  readonly #key: Buffer;
  readonly #secrets = new BoundedMap<string, string>(secretsMax, 'all');

  constructor(gatewayToken: string, purpose: SecretPurpose) {
    this.#key = createHmac('sha256', gatewayToken).update(`headgate ${purpose}`).digest();
  }

  /** Secret of an organisation: 32 bytes as 43 URL-safe characters. */
  of(tenant: string): string {
    const known = this.#secrets.get(tenant);
    if (known !== undefined) return known;
    return this.#secrets.keep(tenant, createHmac('sha256', this.#key).update(tenant).digest('base64url'));
  }
}
