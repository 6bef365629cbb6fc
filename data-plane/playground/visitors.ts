/**
 * Identifies visitors by an id in a sealed cookie and by a keyed hash of their network. The id yields a different subject
 * each month, and the network's hash changes daily. All keys derive from the gateway token, so every gateway recognises every
 * visitor, but no cookie of another token.
 */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { dayMs } from '../../schemas/durations.ts';
import { Sealer } from '../../shared/runtime/sealed-text.ts';
import { networkPrefix } from './network.ts';

const cookieSchema = z.object({
  v: z.literal(1),
  id: z.string().regex(/^[\w-]{22}$/),
  madeMs: z.number(),
});

const idBytes = 16;
export const cookieDays = 35;
/** Tolerated clock difference: a cookie from a gateway whose clock is this far ahead is still accepted. */
const skewMs = 5 * 60_000;
const visitorHexLength = 32;
const networkHexLength = 12;

export class Visitors {
  readonly #sealer: Sealer;
  readonly #token: string;
  readonly #visitorKey: Buffer;
  #networkKey: { readonly day: string; readonly key: Buffer } | undefined;

  constructor(gatewayToken: string) {
    this.#token = gatewayToken;
    this.#sealer = new Sealer(gatewayToken, 'visitor cookie');
    this.#visitorKey = this.#derive('visitor subject');
  }

  /** Creates a new visitor's id and cookie value. */
  mint(nowMs: number): { readonly cookie: string; readonly id: string } {
    const id = randomBytes(idBytes).toString('base64url');
    return { id, cookie: this.#sealer.seal({ v: 1, id, madeMs: nowMs }) };
  }

  /** Returns the id in a cookie's value, or undefined if the cookie is not valid. */
  open(cookie: string, nowMs: number): string | undefined {
    const content = this.#sealer.open(cookie, cookieSchema);
    if (content === undefined) return undefined;
    const ageMs = nowMs - content.madeMs;
    return ageMs < cookieDays * dayMs && ageMs > -skewMs ? content.id : undefined;
  }

  /** Returns the subject of an id for the current UTC month. Subjects of different months cannot be linked. */
  subject(id: string, nowMs: number): string {
    const period = new Date(nowMs).toISOString().slice(0, 7);
    return `v-${hmac(this.#visitorKey, `${id} ${period}`, visitorHexLength)}`;
  }

  /** Returns the subject of an address for the current UTC day. */
  network(address: string, nowMs: number): string {
    const day = new Date(nowMs).toISOString().slice(0, 10);
    if (this.#networkKey?.day !== day) this.#networkKey = { day, key: this.#derive(`network of ${day}`) };
    return `n-${hmac(this.#networkKey.key, networkPrefix(address), networkHexLength)}`;
  }

  #derive(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#token, '', `headgate ${purpose} v1`, 32));
  }
}

function hmac(key: Buffer, text: string, length: number): string {
  return createHmac('sha256', key).update(text).digest('hex').slice(0, length);
}
