/**
 * Limits the number of new visitors per network and hour: the first few are free, more must solve a proof of work, and
 * further ones are refused. This slows down people who clear their cookies. The total use by all visitors has a limit of its
 * own. Each gateway counts on its own.
 */
import { hourMs } from '../../schemas/durations.ts';
import { CallBudget } from './call-budget.ts';
import { type Challenge, Challenges, challengeSeconds, isSolved, type Solution } from './challenges.ts';

/** Number of new visitors per network and hour that need no proof of work, and the maximum number. */
const freePerHour = 3;
export const newPerHourMax = 30;
/** Maximum number of wrong solutions checked per network and hour, because each check costs CPU time. */
const checkedPerHourMax = 60;
/** Maximum number of networks counted per hour. New visitors from any further network always need a proof of work. */
const networksMax = 100_000;
/** Number of solutions checked per second for counted networks, and for all others. A check takes up to a millisecond. */
const checksPerSecond = 100;
const othersChecksPerSecond = 20;
/** Maximum number of answered challenges remembered. More can be valid at once only if a clock was set back. */
const answeredMax = 100_000;

export interface VisitorOrigin {
  /** Subject that stands for the new visitor's network. */
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
  /** All checks allowed in this second, or the network's share of them, are used up. The solution can be sent again. */
  | { readonly kind: 'busy'; readonly retryAfterSeconds: number };

export class NewVisitors {
  readonly #challenges: Challenges;
  readonly #networks = new Map<string, HourOfNetwork>();
  /** Expiry time of each answered challenge, by nonce. Includes wrong answers, so that no challenge counts twice. */
  readonly #answered = new Map<string, number>();
  readonly #checks = new CallBudget(checksPerSecond);
  readonly #othersChecks = new CallBudget(othersChecksPerSecond);
  readonly #monotonicMs: () => number;
  /** Promise of the last check. Checks run one after another, so that the other CPU cores stay free for requests. */
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
      // Other visitors from the network may have used up its hourly number while this solution was checked.
      if (counts !== undefined && counts.made >= newPerHourMax) return this.admit(from, undefined, nowMs);
      if (checked === 'wrong') return { kind: 'work', challenge: this.#challenges.create(network, nowMs) };
    }
    if (counts !== undefined) counts.made++;
    return { kind: 'allowed' };
  }

  /** Counts for the network in this hour, or undefined if too many other networks are counted already. */
  #findCounts(network: string, nowMs: number): HourOfNetwork | undefined {
    const hour = Math.floor(nowMs / hourMs);
    // Never go back to an earlier hour, because that would reset the counts.
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
    // Ignore a failed check here, so that it does not fail the checks after it.
    this.#checking = check.catch(() => undefined);
    const isRight = await check;
    if (isRight && counts !== undefined) counts.checked--;
    return isRight ? 'right' : 'wrong';
  }

  /** Forgets expired challenges. The map contains challenges in the order in which they were answered. */
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
