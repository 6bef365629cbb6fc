/**
 * Limits the number of new visitors per network and hour: the first few are free, more must solve a proof of work, and
 * further ones are refused. This slows down people who clear their cookies. The total use by all visitors has a limit of its
 * own. Each gateway counts on its own.
 */
import { hourMs } from '../../schemas/durations.ts';
import { CallBudget } from './call-budget.ts';
import { type Challenge, Challenges, challengeSeconds, isSolved, type Solution } from './challenges.ts';

/** Number of new visitors per network and hour that need no proof of work, and the maximum number of new visitors. */
const freePerHour = 3;
export const newPerHourMax = 30;
/** Maximum number of wrong solutions checked per network and hour, because each check costs CPU time. */
const checkedPerHourMax = 60;
/** Maximum number of networks counted per hour. New visitors from any further network always need a proof of work. */
const networksMax = 100_000;
/** Maximum number of solutions checked per second for counted networks, and for all others. Each takes up to a ms. */
const checksPerSecond = 100;
const othersChecksPerSecond = 20;
/** Maximum number of answered challenges that are remembered. More can be valid only after a clock was set back. */
const answeredMax = 100_000;

export interface VisitorOrigin {
  /** Subject that stands for the network of the new visitor. */
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
  /** The checks of this second, or the network's share of them, are used up. The client may send its solution again. */
  | { readonly kind: 'busy'; readonly retryAfterSeconds: number };

export class NewVisitors {
  readonly #challenges: Challenges;
  readonly #networks = new Map<string, HourOfNetwork>();
  /** Expiry time of each answered challenge, by nonce. Wrong answers are included, so that no challenge counts twice. */
  readonly #answered = new Map<string, number>();
  readonly #checks = new CallBudget(checksPerSecond);
  readonly #othersChecks = new CallBudget(othersChecksPerSecond);
  readonly #monotonicMs: () => number;
  /** Promise of the last check. Checks run one after another, which leaves the other CPU cores to requests. */
  #checking: Promise<unknown> = Promise.resolve();
  #hour = 0;

  constructor(gatewayToken: string, monotonicMs = () => performance.now()) {
    this.#challenges = new Challenges(gatewayToken);
    this.#monotonicMs = monotonicMs;
  }

  /** Decides whether a new visitor is admitted, and counts admitted visitors. */
  async admit(from: VisitorOrigin, solved: Solution | undefined, nowMs: number): Promise<NewVisitor> {
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
      // Check the number once more: other visitors may have been admitted from the network while the solution was checked.
      if (counts !== undefined && counts.made >= newPerHourMax) return this.admit(from, undefined, nowMs);
      if (checked === 'wrong') return { kind: 'work', challenge: this.#challenges.create(network, nowMs) };
    }
    if (counts !== undefined) counts.made++;
    return { kind: 'allowed' };
  }

  /** Counts of the network in this hour, or undefined if too many other networks are counted already. */
  #findCounts(network: string, nowMs: number): HourOfNetwork | undefined {
    const hour = Math.floor(nowMs / hourMs);
    // If the clock goes back to an earlier hour, keep the counts, because they would start again at zero otherwise.
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

  /** Checks a solution. A challenge that was answered before, or that was made for another network, counts as wrong. */
  async #check(
    { network, address }: VisitorOrigin,
    solved: Solution | undefined,
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
    // Continue even after a check that failed, so that it does not make later checks fail.
    this.#checking = check.catch(() => undefined);
    const isRight = await check;
    if (isRight && counts !== undefined) counts.checked--;
    return isRight ? 'right' : 'wrong';
  }

  /** Drops expired challenges. They come first in the map, which is in the order in which challenges were answered. */
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
