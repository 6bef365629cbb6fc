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
/** Networks counted in an hour; beyond, each new visitor of a further one costs work, and nothing else is counted of it. */
const networksMax = 100_000;
/** Challenges remembered as answered; beyond, the oldest is forgotten, and its solution may count once more. */
const answeredMax = 100_000;
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
  /** Challenges that were answered, rightly or not, by their nonce: until when they are valid. */
  readonly #answered = new Map<string, number>();
  #hour = 0;

  constructor(gatewayToken: string) {
    this.#secret = Buffer.from(hkdfSync('sha256', gatewayToken, '', 'headgate visitor work v1', 32)).toString(
      'base64url',
    );
  }

  /** Decides on a new visitor, and counts one that is allowed. */
  async admit(network: string, solution: Payload | undefined, nowMs: number): Promise<NewVisitor> {
    const counts = this.#countsOf(network, nowMs);
    if (isUsedUp(counts))
      return {
        kind: 'refused',
        retryAfterSeconds: Math.ceil(((this.#hour + 1) * hourMs - nowMs) / 1000),
      };
    const isFree = counts !== undefined && counts.made < freePerHour;
    const isSolved = isFree || (await this.#isSolved(network, solution, counts, nowMs));
    // Others may have begun while the solution was checked.
    if (counts !== undefined && counts.made >= newPerHourMax) return this.admit(network, undefined, nowMs);
    if (!isSolved) return { kind: 'work', challenge: await this.#challenge(network, nowMs) };
    if (counts !== undefined) counts.made++;
    return { kind: 'allowed' };
  }

  /** Undefined of a network beyond those that are counted. */
  #countsOf(network: string, nowMs: number): HourOfNetwork | undefined {
    const hour = Math.floor(nowMs / hourMs);
    // Never back: a clock that was read earlier would begin an hour again.
    if (hour > this.#hour) {
      this.#hour = hour;
      this.#networks.clear();
    }
    const known = this.#networks.get(network);
    if (known !== undefined || this.#networks.size >= networksMax) return known;
    const counts = { made: 0, checked: 0 };
    this.#networks.set(network, counts);
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
    counts: HourOfNetwork | undefined,
    nowMs: number,
  ): Promise<boolean> {
    if (payload === undefined) return false;
    const { challenge, solution } = payload;
    const { nonce, data, cost: claimed, algorithm } = challenge.parameters;
    if (data?.['network'] !== network || claimed !== cost || algorithm !== 'PBKDF2/SHA-256') return false;
    const { verified } = await verifySolution({
      challenge,
      solution,
      // Called once the signature is found valid, so that nobody can use up the checks of a network without its challenges.
      deriveKey: async (...input) =>
        this.#mayCheck(nonce, counts, nowMs) ? deriveKey(...input) : { derivedKey: new Uint8Array() },
      hmacSignatureSecret: this.#secret,
    });
    if (verified && counts !== undefined) counts.checked--;
    return verified;
  }

  /** Counts a check; one of each challenge. */
  #mayCheck(nonce: string, counts: HourOfNetwork | undefined, nowMs: number): boolean {
    this.#forgetAnswered(nowMs);
    if (this.#answered.has(nonce) || isUsedUp(counts)) return false;
    this.#answered.set(nonce, nowMs + challengeSeconds * 1000);
    if (counts !== undefined) counts.checked++;
    return true;
  }

  /** In the order in which they were answered. */
  #forgetAnswered(nowMs: number): void {
    for (const [nonce, endsMs] of this.#answered) {
      if (endsMs > nowMs && this.#answered.size < answeredMax) return;
      this.#answered.delete(nonce);
    }
  }
}

function isUsedUp(counts: HourOfNetwork | undefined): boolean {
  return counts !== undefined && (counts.made >= newPerHourMax || counts.checked >= checkedPerHourMax);
}
