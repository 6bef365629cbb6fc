/**
 * Keeps the outbox in step with the row log, and reports each account's total over all gateways. Runs in its own thread, so
 * that neither disk flushes nor other gateways' records delay a request. The message that reports a row as counted also
 * contains the new total, so a receiver that handles messages in order counts each row exactly once.
 */
import type { CounterEntry, UsageGapEntry } from '../../schemas/records/limits.ts';
import type { CounterFeedCounts } from '../../shared/limits/counter-feed.ts';
import type { Sum } from '../../shared/limits/counters.ts';
import type { Outbox } from './outbox.ts';
import {
  type Account,
  type AccountLimit,
  type Amount,
  accountKey,
  amountIn,
  type UsageWorkerEvent,
  type UsageWorkerRequest,
} from './worker-messages.ts';

/** Minimum time in ms until an incarnation's rows are shipped again, because the last shipment takes time to arrive. */
const reshipIntervalMs = 5_000;

export interface UsageWorkerParts {
  readonly outbox: Outbox;
  /** Returns the sum that all other gateways have counted under this key. */
  readonly others: (key: string) => Sum;
  /** Called with the limits of accounts, because a counter near its limit must be published sooner. */
  readonly onLimits: (limits: readonly AccountLimit[]) => void;
  readonly live: () => number;
  readonly counts: Readonly<CounterFeedCounts>;
  readonly post: (event: UsageWorkerEvent) => void;
}

export class UsageWorker {
  readonly #options: UsageWorkerParts;
  readonly #ownIncarnations: ReadonlySet<string>;
  /** Time at which each incarnation's rows were last shipped again, in monotonic ms. */
  readonly #reshippedMs = new Map<string, number>();
  /** Accounts whose totals the main thread has requested, by key. */
  readonly #asked = new Map<string, Account>();
  #isOpen = false;

  constructor(options: UsageWorkerParts) {
    this.#options = options;
    this.#ownIncarnations = new Set(options.outbox.incarnations());
    options.outbox.setOnSettled((entries) => this.#settle(entries));
    options.outbox.setOnWritten(() => this.#postState());
  }

  open(): void {
    this.#isOpen = true;
    this.#options.post({ kind: 'opened', log: this.#options.outbox.logStart() });
    this.#postState();
  }

  onRequest(request: Exclude<UsageWorkerRequest, { readonly kind: 'close' }>): void {
    if (request.kind === 'forget') this.#asked.clear();
    else if (request.kind === 'written') this.#onWritten(request);
    else {
      this.#asked.set(accountKey(request.account), request.account);
      this.#postTotals([], [request.account]);
    }
  }

  /** Must be called in the turn of the event loop in which the sums of these keys have changed. */
  onChanged(keys: Iterable<string>): void {
    const accounts: Account[] = [];
    for (const key of keys) {
      const account = this.#asked.get(key);
      if (account !== undefined) accounts.push(account);
    }
    if (this.#isOpen && accounts.length > 0) this.#postTotals([], accounts);
  }

  /** Ships rows again that the usage log acknowledged but has lost. The outbox still has them. */
  onGaps(gaps: readonly UsageGapEntry[]): void {
    for (const [incarnation, next] of gaps) this.#reship(incarnation, next);
  }

  #onWritten({ position, limits }: Extract<UsageWorkerRequest, { kind: 'written' }>): void {
    this.#options.onLimits(limits);
    this.#options.outbox.follow(position);
  }

  #settle(entries: readonly CounterEntry[]): void {
    if (entries.length === 0) return;
    const settled = entries.map(
      ([subject, period, tokens, turns]): Amount => [
        { subject, period },
        amountIn(subject, { tokens, turns }),
      ],
    );
    this.#postTotals(
      settled,
      settled.map(([account]) => account),
    );
  }

  #postState(): void {
    const { outbox, post, counts, live } = this.#options;
    if (!this.#isOpen) return;
    const { taken, unshipped, isFull } = outbox;
    post({
      kind: 'state',
      taken,
      shipped: outbox.file.safelyShipped,
      live: live(),
      unshipped,
      isFull,
      countersPublished: counts.published,
      countersRejected: counts.rejected,
    });
  }

  #postTotals(settled: readonly Amount[], accounts: Iterable<Account>): void {
    const totals: Amount[] = [];
    for (const account of accounts) totals.push([account, this.#total(account)]);
    this.#options.post({ kind: 'totals', settled, totals });
  }

  #total(account: Account): number {
    const { outbox, others } = this.#options;
    const { subject } = account;
    const key = accountKey(account);
    const amount = (sum: Sum | undefined) => (sum === undefined ? 0 : amountIn(subject, sum));
    return amount(outbox.ledger.get(key)) + amount(others(key));
  }

  #reship(incarnation: string, next: number): void {
    const nowMs = performance.now();
    if (!this.#ownIncarnations.has(incarnation)) return;
    if ((this.#reshippedMs.get(incarnation) ?? Number.NEGATIVE_INFINITY) > nowMs - reshipIntervalMs) return;
    this.#reshippedMs.set(incarnation, nowMs);
    this.#options.outbox.reship(incarnation, next);
  }
}
