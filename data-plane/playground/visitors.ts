/**
 * Identifies visitors of the playground by an id in an encrypted cookie and by a keyed hash of their network. The id gets a
 * new subject each month, and the network a new one each day, so that use cannot be linked for longer. All keys are derived
 * from the token that gateways share, so every gateway recognises every visitor, but no cookie made with another token.
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
/** Largest clock difference in ms between gateways. A cookie that is dated further ahead is not accepted. */
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

  /** Creates the id of a new visitor, and the value of the cookie that contains it. */
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

  /** Subject that stands for a visitor in the current UTC month. Subjects of different months cannot be linked. */
  subject(id: string, nowMs: number): string {
    const period = new Date(nowMs).toISOString().slice(0, 7);
    return `v-${hmac(this.#visitorKey, `${id} ${period}`, visitorHexLength)}`;
  }

  /** Subject that stands for the network of an address on the current UTC day. */
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
