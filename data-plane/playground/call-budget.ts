/**
 * How many calls of one kind, or proofs of work, a gateway handles in a second: on a connection that is kept, calls cost no new
 * one.
 */
import { networkOf } from './network.ts';

/** A network may have this part of the calls that are left, so a few networks never have all. */
const shareOfRoom = 1 / 3;

export class CallBudget {
  readonly #perSecond: number;
  readonly #networks = new Map<string, number>();
  #second = 0;
  #calls = 0;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** True where one more of an address may be handled; then it is counted. `nowMs` is monotonic. */
  tryAcquire(address: string, nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#calls = 0;
      this.#networks.clear();
    }
    const network = siteOf(address);
    const ofNetwork = this.#networks.get(network) ?? 0;
    if (ofNetwork >= (this.#perSecond - this.#calls) * shareOfRoom) return false;
    this.#calls++;
    this.#networks.set(network, ofNetwork + 1);
    return true;
  }
}

/** An IPv4 address, or the 48 bits of an IPv6 address that one customer can have. */
function siteOf(address: string): string {
  return networkOf(address).split(':', 3).join(':');
}
