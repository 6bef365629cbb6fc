/**
 * How many visitors may begin on a network: a few for nothing, then for a proof of work, and an end. It slows down who clears
 * cookies; what all visitors together may use is limited apart from it. Counted by each gateway alone.
 */
import { hourMs } from '../../schemas/durations.ts';
import { CallBudget } from './call-budget.ts';
import { type Challenge, Challenges, challengeSeconds, isSolved, type Solved } from './challenges.ts';

/** New visitors of a network in an hour: so many without work, and so many at all. */
const freePerHour = 3;
export const newPerHourMax = 30;
/** Wrong solutions of a network in an hour that are checked: each costs a derivation. */
const checkedPerHourMax = 60;
/** Networks counted in an hour; beyond, each new visitor of a further one costs work, and nothing else is counted of it. */
const networksMax = 100_000;
/**
 * Solutions checked in a second, of all networks that are counted and of all others: each takes up to a millisecond of a
 * processor. Of each, a network has its share alone, so those of a few leave checks for others.
 */
const checksPerSecond = 100;
const othersChecksPerSecond = 20;
/** Challenges remembered as answered: more than are checked in their time, unless a clock was set back. */
const answeredMax = 100_000;

/** Where a new visitor comes from. */
export interface VisitorOrigin {
  /** Its network as a subject. */
  readonly network: string;
  readonly address: string;
}

interface HourOfNetwork {
  made: number;
  checked: number;
}

export type NewVisitor =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'work'; readonly challenge: Challenge }
  | { readonly kind: 'refused'; readonly retryAfterSeconds: number }
  /** As many solutions as are checked in a second, or its network's share of them, were; this one still counts afterwards. */
  | { readonly kind: 'busy'; readonly retryAfterSeconds: number };

export class NewVisitors {
  readonly #challenges: Challenges;
  readonly #networks = new Map<string, HourOfNetwork>();
  /** Challenges that were answered, rightly or not, by their nonce: until when they are valid. */
  readonly #answered = new Map<string, number>();
  readonly #checks = new CallBudget(checksPerSecond);
  readonly #othersChecks = new CallBudget(othersChecksPerSecond);
  readonly #monotonicMs: () => number;
  /** One check at a time: they are to leave processors to requests. */
  #checking: Promise<unknown> = Promise.resolve();
  #hour = 0;

  constructor(gatewayToken: string, monotonicMs = () => performance.now()) {
    this.#challenges = new Challenges(gatewayToken);
    this.#monotonicMs = monotonicMs;
  }

  /** Decides on a new visitor, and counts one that is allowed. */
  async admit(from: VisitorOrigin, solved: Solved | undefined, nowMs: number): Promise<NewVisitor> {
    const { network } = from;
    const counts = this.#findCounts(network, nowMs);
    if (isUsedUp(counts))
      return {
        kind: 'refused',
        retryAfterSeconds: Math.ceil(((this.#hour + 1) * hourMs - nowMs) / 1000),
      };
    if (counts === undefined || counts.made >= freePerHour) {
      const checked = await this.#check(from, solved, counts, nowMs);
      if (checked === 'busy') return { kind: 'busy', retryAfterSeconds: 1 };
      // Others may have begun while the solution was checked.
      if (counts !== undefined && counts.made >= newPerHourMax) return this.admit(from, undefined, nowMs);
      if (checked === 'wrong') return { kind: 'work', challenge: this.#challenges.create(network, nowMs) };
    }
    if (counts !== undefined) counts.made++;
    return { kind: 'allowed' };
  }

  /** Undefined of a network beyond those that are counted. */
  #findCounts(network: string, nowMs: number): HourOfNetwork | undefined {
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

  /** Checks a solution once, of a challenge of its network that a gateway made. */
  async #check(
    { network, address }: VisitorOrigin,
    solved: Solved | undefined,
    counts: HourOfNetwork | undefined,
    nowMs: number,
  ): Promise<'right' | 'wrong' | 'busy'> {
    if (solved === undefined || !this.#challenges.isValid(solved.challenge, network, nowMs)) return 'wrong';
    const { nonce } = solved.challenge.parameters;
    this.#forgetAnswered(nowMs);
    if (this.#answered.has(nonce)) return 'wrong';
    const budget = counts === undefined ? this.#othersChecks : this.#checks;
    if (!budget.tryAcquire(address, this.#monotonicMs())) return 'busy';
    this.#answered.set(nonce, nowMs + challengeSeconds * 1000);
    if (counts !== undefined) counts.checked++;
    const check = this.#checking.then(() => isSolved(solved));
    // One that fails must not end those after it.
    this.#checking = check.catch(() => undefined);
    const isRight = await check;
    if (isRight && counts !== undefined) counts.checked--;
    return isRight ? 'right' : 'wrong';
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
