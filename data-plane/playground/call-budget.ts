/** Limits the number of calls, or of proof-of-work checks, per second, because one connection can carry many of them. */
import { networkPrefix } from './network.ts';

/** Largest share of the calls left in a second that one network may use, so that a few networks cannot use up all. */
const shareOfRoom = 1 / 3;

export class CallBudget {
  readonly #perSecond: number;
  readonly #networks = new Map<string, number>();
  #second = 0;
  #calls = 0;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Whether the address may make another call now. If so, counts that call. `nowMs` is monotonic. */
  tryAcquire(address: string, nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#calls = 0;
      this.#networks.clear();
    }
    const network = sitePrefix(address);
    const ofNetwork = this.#networks.get(network) ?? 0;
    if (ofNetwork >= (this.#perSecond - this.#calls) * shareOfRoom) return false;
    this.#calls++;
    this.#networks.set(network, ofNetwork + 1);
    return true;
  }
}

/** Part of an address that one customer may control: an IPv4 address, or the first 48 bits of an IPv6 address. */
function sitePrefix(address: string): string {
  return networkPrefix(address).split(':', 3).join(':');
}
