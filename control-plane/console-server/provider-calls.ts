/**
 * Limits how often browsers that return from the identity provider can cause calls to it. Calls are limited per sign-in and
 * not per address, because everyone behind a proxy shares one address. A call is counted before it is made. One address may
 * have at most half of the concurrent calls, so that it cannot lock out others.
 */
import { Tally } from '../state/tally.ts';

const usesMax = 3;
const runningMax = 20;
const runningPerAddressMax = runningMax / 2;
const rememberedMax = 10_000;

interface Uses {
  count: number;
  readonly untilMs: number;
}

export class ProviderCalls {
  readonly #rememberMs: number;
  readonly #uses = new Map<string, Uses>();
  readonly #running = new Tally();

  constructor(rememberSeconds: number) {
    this.#rememberMs = rememberSeconds * 1000;
  }

  /**
   * Begins a call for this sign-in, if one more is allowed. After `begun`, the caller must call `end` with the same address.
   */
  begin(state: string, address: string): 'begun' | 'used' | 'busy' {
    const nowMs = performance.now();
    const uses = this.#findUses(state, nowMs);
    if (uses.count >= usesMax) return 'used';
    if (this.#running.total >= runningMax || this.#running.of(address) >= runningPerAddressMax) return 'busy';
    uses.count++;
    this.#running.add(address);
    return 'begun';
  }

  end(address: string): void {
    this.#running.add(address, -1);
  }

  #findUses(state: string, nowMs: number): Uses {
    for (const [old, { untilMs }] of this.#uses) {
      if (untilMs > nowMs && this.#uses.size < rememberedMax) break;
      this.#uses.delete(old);
    }
    const uses = this.#uses.get(state) ?? { count: 0, untilMs: nowMs + this.#rememberMs };
    this.#uses.set(state, uses);
    return uses;
  }
}
