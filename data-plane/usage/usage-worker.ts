/**
 * The usage worker: writes rows to the outbox, follows the folded totals, and reports the totals of accounts. It runs on
 * a thread of its own, so that no disk flush and no fold delays a request.
 * Totals are posted synchronously with the fold, so a consumer that processes messages in order counts every row exactly
 * once.
 */
import type { AppliedUsage, UsageStore } from '../../shared/usage/usage-store.ts';
import type { NewUsage, Outbox } from './outbox.ts';
import {
  type Account,
  type Amount,
  accountKey,
  amountOf,
  type UsageWorkerEvent,
  type UsageWorkerRequest,
} from './worker-messages.ts';

/** Rows of one incarnation are shipped again at most this often, ms: they need time to arrive. */
const reshipIntervalMs = 5_000;

export interface UsageWorkerParts {
  readonly outbox: Outbox;
  readonly store: UsageStore;
  readonly post: (event: UsageWorkerEvent) => void;
}

export class UsageWorker {
  readonly #options: UsageWorkerParts;
  readonly #ownIncarnations: ReadonlySet<string>;
  /** When rows of an incarnation were last shipped again, monotonic ms. */
  readonly #reshippedMs = new Map<string, number>();
  #isOpen = false;
  #received = 0;
  #durable = 0;

  constructor(options: UsageWorkerParts) {
    this.#options = options;
    this.#ownIncarnations = new Set(options.outbox.incarnations());
    options.outbox.setOnWritten(() => this.#postState());
  }

  /** Posts `opened` with the amounts of earlier process starts that are not folded yet. */
  open(): void {
    const { outbox, store, post } = this.#options;
    const pending: Amount[] = [];
    for (const { organisation, period, visitor, tokens, turns } of outbox.pendingSums((id) =>
      store.highWater(id),
    )) {
      if (visitor !== null) pending.push([{ visitor }, turns]);
      else if (organisation !== null && period !== null) pending.push([{ organisation, period }, tokens]);
    }
    this.#isOpen = true;
    post({ kind: 'opened', pending });
    this.#postState();
  }

  onRequest(request: Exclude<UsageWorkerRequest, { readonly kind: 'close' }>): void {
    if (request.kind === 'rows') this.#record(JSON.parse(request.rows) as readonly NewUsage[]);
    else this.#postTotals([], [request.account]);
  }

  /** Must be called in the turn of the event loop in which the store applied the rows. */
  onApplied({ rows, gaps }: AppliedUsage): void {
    const moved = new Map<string, { readonly account: Account; own: number }>();
    for (const row of rows) {
      const [account, amount] = amountOf(row) ?? [];
      if (account === undefined || amount === undefined) continue;
      const key = accountKey(account);
      const sum = moved.get(key) ?? { account, own: 0 };
      if (this.#ownIncarnations.has(row.incarnation)) sum.own += amount;
      moved.set(key, sum);
    }
    // Rows folded before `opened` are not among its pending amounts.
    if (this.#isOpen && moved.size > 0) {
      const sums = [...moved.values()];
      const settled = sums.flatMap(({ account, own }): Amount[] => (own === 0 ? [] : [[account, own]]));
      this.#postTotals(
        settled,
        sums.map(({ account }) => account),
      );
    }
    // The log lost rows that it had acknowledged: the outbox still has them.
    for (const { incarnation, next } of gaps) this.#reship(incarnation, next);
  }

  #record(rows: readonly NewUsage[]): void {
    const refused: Amount[] = [];
    for (const row of rows) {
      const amount = this.#options.outbox.record(row) ? undefined : amountOf(row);
      if (amount !== undefined) refused.push(amount);
    }
    this.#received += rows.length;
    if (refused.length > 0) this.#postTotals(refused, []);
  }

  #postState(): void {
    const { outbox, post } = this.#options;
    if (!this.#isOpen) return;
    if (outbox.unwritten === 0) this.#durable = this.#received;
    const { unshipped, isFull } = outbox;
    post({ kind: 'state', received: this.#received, durable: this.#durable, unshipped, isFull });
  }

  #postTotals(settled: readonly Amount[], accounts: Iterable<Account>): void {
    const totals: Amount[] = [];
    for (const account of accounts) totals.push([account, this.#total(account)]);
    this.#options.post({ kind: 'totals', settled, totals });
  }

  #total(account: Account): number {
    const { store } = this.#options;
    return 'visitor' in account
      ? store.freeTurns(account.visitor)
      : store.poolTokens(account.organisation, account.period);
  }

  #reship(incarnation: string, next: number): void {
    const nowMs = performance.now();
    if (!this.#ownIncarnations.has(incarnation)) return;
    if ((this.#reshippedMs.get(incarnation) ?? Number.NEGATIVE_INFINITY) > nowMs - reshipIntervalMs) return;
    this.#reshippedMs.set(incarnation, nowMs);
    this.#options.outbox.reship(incarnation, next);
  }
}
