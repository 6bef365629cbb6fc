/**
 * The desk of usage: takes rows into the outbox and follows the totals, and tells what that does to allowances. It runs
 * on a thread of its own, so that no flush of the disk and no fold ever stands in the way of a request.
 * What it says of an account is said in the very turn in which the store takes rows up, so that whoever reads its
 * messages in their order counts no row twice and none not at all.
 */
import type { AppliedUsage, UsageStore } from '../../shared/usage/usage-store.ts';
import type { NewUsage, Outbox } from './outbox.ts';
import {
  type Account,
  type Amount,
  accountKey,
  amountOf,
  type DeskNews,
  type DeskRequest,
} from './worker-messages.ts';

/** How long rows that were shipped again have to arrive before they are asked for once more, ms. */
const shipAgainEveryMs = 5_000;

export interface DeskOptions {
  readonly outbox: Outbox;
  readonly store: UsageStore;
  readonly say: (news: DeskNews) => void;
}

export class UsageDesk {
  readonly #options: DeskOptions;
  readonly #ownIncarnations: ReadonlySet<string>;
  /** When rows of an incarnation were last shipped again, monotonic ms. */
  readonly #shippedAgainMs = new Map<string, number>();
  #isOpen = false;
  #taken = 0;
  #durable = 0;

  constructor(options: DeskOptions) {
    this.#options = options;
    this.#ownIncarnations = new Set(options.outbox.incarnations());
    options.outbox.whenWritten(() => this.#tellState());
  }

  /** Says that it is open, and what waits from earlier starts. */
  open(): void {
    const { outbox, store, say } = this.#options;
    const pending: Amount[] = [];
    for (const { organisation, period, visitor, tokens, turns } of outbox.unfolded((id) =>
      store.highWater(id),
    )) {
      if (visitor !== null) pending.push([{ visitor }, turns]);
      else if (organisation !== null && period !== null) pending.push([{ organisation, period }, tokens]);
    }
    this.#isOpen = true;
    say({ kind: 'opened', pending });
    this.#tellState();
  }

  take(request: Exclude<DeskRequest, { readonly kind: 'close' }>): void {
    if (request.kind === 'rows') this.#keep(JSON.parse(request.rows) as readonly NewUsage[]);
    else this.#say([], [request.account]);
  }

  /** To be called with what the store applied, in the same turn. */
  applied({ rows, gaps }: AppliedUsage): void {
    const moved = new Map<string, { readonly account: Account; own: number }>();
    for (const row of rows) {
      const [account, amount] = amountOf(row) ?? [];
      if (account === undefined || amount === undefined) continue;
      const key = accountKey(account);
      const sum = moved.get(key) ?? { account, own: 0 };
      if (this.#ownIncarnations.has(row.incarnation)) sum.own += amount;
      moved.set(key, sum);
    }
    // What is folded before the opening is not among the rows that wait then.
    if (this.#isOpen && moved.size > 0) {
      const sums = [...moved.values()];
      const settled = sums.flatMap(({ account, own }): Amount[] => (own === 0 ? [] : [[account, own]]));
      this.#say(
        settled,
        sums.map(({ account }) => account),
      );
    }
    // The log lost rows that it had acknowledged: they are still here.
    for (const { incarnation, next } of gaps) this.#shipAgain(incarnation, next);
  }

  #keep(rows: readonly NewUsage[]): void {
    const refused: Amount[] = [];
    for (const row of rows) {
      const amount = this.#options.outbox.record(row) ? undefined : amountOf(row);
      if (amount !== undefined) refused.push(amount);
    }
    this.#taken += rows.length;
    if (refused.length > 0) this.#say(refused, []);
  }

  #tellState(): void {
    const { outbox, say } = this.#options;
    if (!this.#isOpen) return;
    if (outbox.waiting === 0) this.#durable = this.#taken;
    const { unshipped, isFull } = outbox;
    say({ kind: 'state', taken: this.#taken, durable: this.#durable, unshipped, isFull });
  }

  #say(settled: readonly Amount[], accounts: Iterable<Account>): void {
    const totals: Amount[] = [];
    for (const account of accounts) totals.push([account, this.#total(account)]);
    this.#options.say({ kind: 'totals', settled, totals });
  }

  #total(account: Account): number {
    const { store } = this.#options;
    return 'visitor' in account
      ? store.freeTurns(account.visitor)
      : store.poolTokens(account.organisation, account.period);
  }

  #shipAgain(incarnation: string, next: number): void {
    const nowMs = performance.now();
    if (!this.#ownIncarnations.has(incarnation)) return;
    if ((this.#shippedAgainMs.get(incarnation) ?? Number.NEGATIVE_INFINITY) > nowMs - shipAgainEveryMs)
      return;
    this.#shippedAgainMs.set(incarnation, nowMs);
    this.#options.outbox.shipAgain(incarnation, next);
  }
}
