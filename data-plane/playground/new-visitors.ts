/**
 * Limits new visitors per network and hour: a few freely, more for a proof of work, then none. This slows down people who
 * clear their cookies; the use of all visitors has a separate limit. Each gateway counts alone.
 */
import { hourMs } from '../../schemas/durations.ts';
import { CallBudget } from './call-budget.ts';
import { type Challenge, Challenges, challengeSeconds, isSolved, type Solved } from './challenges.ts';

/** New visitors per network and hour: without proof of work, and in total. */
const freePerHour = 3;
export const newPerHourMax = 30;
/** Wrong solutions checked per network and hour. Each check derives a key. */
const checkedPerHourMax = 60;
/** Largest number of networks counted per hour. Visitors from further networks need a proof of work. */
const networksMax = 100_000;
/**
 * Solutions checked per second, for all counted networks together and for all others. A check takes up to a millisecond of
 * CPU time, and one network may use only a share.
 */
const checksPerSecond = 100;
const othersChecksPerSecond = 20;
/** Answered challenges remembered: more than can be checked while they are valid, unless a clock was set back. */
const answeredMax = 100_000;

export interface VisitorOrigin {
  /** Subject that stands for the network. */
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
  /** The checks of this second, or the network's share of them, are used up. The solution remains valid. */
  | { readonly kind: 'busy'; readonly retryAfterSeconds: number };

export class NewVisitors {
  readonly #challenges: Challenges;
  readonly #networks = new Map<string, HourOfNetwork>();
  /** Nonces of answered challenges, whether the answer was right or wrong, and when each expires. */
  readonly #answered = new Map<string, number>();
  readonly #checks = new CallBudget(checksPerSecond);
  readonly #othersChecks = new CallBudget(othersChecksPerSecond);
  readonly #monotonicMs: () => number;
  /** The check in progress. Only one runs at a time, to leave processors for requests. */
  #checking: Promise<unknown> = Promise.resolve();
  #hour = 0;

  constructor(gatewayToken: string, monotonicMs = () => performance.now()) {
    this.#challenges = new Challenges(gatewayToken);
    this.#monotonicMs = monotonicMs;
  }

  /** Decides on a new visitor, and counts an allowed one. */
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
      // Other visitors may have begun while the solution was checked.
      if (counts !== undefined && counts.made >= newPerHourMax) return this.admit(from, undefined, nowMs);
      if (checked === 'wrong') return { kind: 'work', challenge: this.#challenges.create(network, nowMs) };
    }
    if (counts !== undefined) counts.made++;
    return { kind: 'allowed' };
  }

  /** Returns undefined if the network is beyond those that are counted. */
  #findCounts(network: string, nowMs: number): HourOfNetwork | undefined {
    const hour = Math.floor(nowMs / hourMs);
    // The hour never goes back: an older clock reading would reset the counts.
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

  /** Checks a solution once, if a gateway made its challenge for this network. */
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
    // A failed check must not fail the next ones.
    this.#checking = check.catch(() => undefined);
    const isRight = await check;
    if (isRight && counts !== undefined) counts.checked--;
    return isRight ? 'right' : 'wrong';
  }

  /** Forgets expired challenges, in the order in which they were answered. */
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
