/**
 * How many visitors may begin on a network: a few for nothing, then for a proof of work, and an end. It slows down who clears
 * cookies; what all visitors together may use is limited apart from it. Counted by each gateway alone.
 */
import { hkdfSync } from 'node:crypto';
import { createChallenge, verifySolution } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/pbkdf2';
import type { Challenge, Payload } from 'altcha-lib/types';

/** New visitors of a network in an hour: so many without work, and so many at all. */
const freePerHour = 3;
export const newPerHourMax = 30;
/** Wrong solutions of a network in an hour that are checked: each costs a derivation. */
const checkedPerHourMax = 60;
const hourMs = 3600_000;
/** Networks remembered in an hour; beyond, new ones count as one. */
const networksMax = 100_000;
const challengeSeconds = 300;
/** PBKDF2 iterations of one try; some 256 tries are needed: a second or two on a phone. */
const cost = 2_000;

interface HourOfNetwork {
  made: number;
  checked: number;
}

export type NewVisitor =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'work'; readonly challenge: Challenge }
  | { readonly kind: 'refused'; readonly retryAfterSeconds: number };

export class NewVisitors {
  readonly #secret: string;
  readonly #networks = new Map<string, HourOfNetwork>();
  readonly #usedSolutions = new Map<string, number>();
  #hour = 0;

  constructor(gatewayToken: string) {
    this.#secret = Buffer.from(hkdfSync('sha256', gatewayToken, '', 'headgate visitor work v1', 32)).toString(
      'base64url',
    );
  }

  /** Decides on a new visitor, and counts one that is allowed. */
  async admit(network: string, solution: Payload | undefined, nowMs: number): Promise<NewVisitor> {
    const counts = this.#countsOf(network, nowMs);
    if (counts.made >= newPerHourMax || counts.checked >= checkedPerHourMax)
      return {
        kind: 'refused',
        retryAfterSeconds: Math.ceil(((this.#hour + 1) * hourMs - nowMs) / 1000),
      };
    if (counts.made >= freePerHour && !(await this.#isSolved(network, solution, counts, nowMs)))
      return { kind: 'work', challenge: await this.#challenge(network, nowMs) };
    // Others may have begun while the solution was checked.
    if (counts.made >= newPerHourMax) return this.admit(network, undefined, nowMs);
    counts.made++;
    return { kind: 'allowed' };
  }

  #countsOf(network: string, nowMs: number): HourOfNetwork {
    const hour = Math.floor(nowMs / hourMs);
    // Never back: a clock that was read earlier would begin an hour again.
    if (hour > this.#hour) {
      this.#hour = hour;
      this.#networks.clear();
    }
    const name = this.#networks.size < networksMax ? network : 'others';
    const counts = this.#networks.get(network) ?? this.#networks.get(name) ?? { made: 0, checked: 0 };
    if (counts.made === 0 && counts.checked === 0) this.#networks.set(name, counts);
    return counts;
  }

  #challenge(network: string, nowMs: number): Promise<Challenge> {
    return createChallenge({
      algorithm: 'PBKDF2/SHA-256',
      cost,
      deriveKey,
      data: { network },
      expiresAt: Math.floor(nowMs / 1000) + challengeSeconds,
      hmacSignatureSecret: this.#secret,
    });
  }

  async #isSolved(
    network: string,
    payload: Payload | undefined,
    counts: HourOfNetwork,
    nowMs: number,
  ): Promise<boolean> {
    if (payload === undefined) return false;
    const { challenge, solution } = payload;
    const { nonce, data, cost: claimed, algorithm } = challenge.parameters;
    if (data?.['network'] !== network || claimed !== cost || algorithm !== 'PBKDF2/SHA-256') return false;
    this.#forgetSolutions(nowMs);
    if (this.#usedSolutions.has(nonce)) return false;
    counts.checked++;
    const { verified } = await verifySolution({
      challenge,
      solution,
      deriveKey,
      hmacSignatureSecret: this.#secret,
    });
    if (!verified || this.#usedSolutions.has(nonce)) return false;
    counts.checked--;
    this.#usedSolutions.set(nonce, nowMs + challengeSeconds * 1000);
    return true;
  }

  /** In the order in which they end. */
  #forgetSolutions(nowMs: number): void {
    for (const [nonce, endsMs] of this.#usedSolutions) {
      if (endsMs > nowMs) return;
      this.#usedSolutions.delete(nonce);
    }
  }
}
