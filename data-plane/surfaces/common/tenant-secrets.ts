/**
 * Secrets of an organisation that all gateways know: they follow from the token that the gateways share, so a tenant has one
 * at all of them, and nothing is kept. What one is for separates it from the others.
 */
import { createHmac } from 'node:crypto';
import { BoundedMap } from '../../../shared/runtime/bounded-map.ts';

/**
 * `cache salt`: for the prefix caches of shared nodes, so that nobody can find out by the time to the first token what others
 * have asked. `sealed thoughts`: the key under which a client keeps thoughts that only its own organisation can use again.
 */
export type SecretPurpose = 'cache salt' | 'sealed thoughts';

const secretsMax = 4096;

export class TenantSecrets {
  readonly #key: Buffer;
  readonly #secrets = new BoundedMap<string, string>(secretsMax, 'all');

  constructor(gatewayToken: string, purpose: SecretPurpose) {
    this.#key = createHmac('sha256', gatewayToken).update(`headgate ${purpose}`).digest();
  }

  /** 32 bytes as 43 characters that are safe in a URL. */
  of(tenant: string): string {
    const known = this.#secrets.get(tenant);
    if (known !== undefined) return known;
    return this.#secrets.keep(tenant, createHmac('sha256', this.#key).update(tenant).digest('base64url'));
  }
}
