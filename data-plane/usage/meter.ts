/**
 * Records the usage of completed requests and counts it against allowances: on this gateway at once, on other gateways once
 * they have read this gateway's counters. A row is pending until the usage worker reports that the totals include it, so each
 * row always counts exactly once. No method waits for a disk. If the row log or the worker falls behind, new requests wait.
 * They are refused only if a disk fails for seconds (backlog.ts).
 */
import { type Capacity, usageTokensMax } from '../../schemas/records/usage.ts';
import { isNearEnd } from '../../shared/limits/counters.ts';
import { billingPeriod } from '../../shared/usage/period.ts';
import { Backlog } from './backlog.ts';
import type { RecordedUsage } from './rows.ts';
import type { UsageWriter } from './usage-writer.ts';
import {
  type Account,
  type Amount,
  accountKey,
  accountOfNetwork,
  accountOfOrganisation,
  accountOfVisitor,
  accountOfVisitors,
  amountsOf,
  type UsageWorkerEvent,
  type UsageWorkerRequest,
} from './worker-messages.ts';

export interface MeterOptions {
  /** Sends a request to the usage worker. */
  readonly post: (request: UsageWorkerRequest) => void;
  /** Writes usage rows to the row log, which the usage worker follows. */
  readonly writer: UsageWriter;
  /** Returns the tokens that operators added to an organisation's use in a period. A negative number returns allowance. */
  readonly adjustmentOf?: (organisation: string, period: string) => number;
  /** Returns the current time of a monotonic clock, in ms. */
  readonly monotonicMs?: () => number;
  /** Maximum time in ms for which a request waits for an account's total. The default is 2 s. */
  readonly totalTimeoutMs?: number;
}

/** Billed party: an organisation, identified by one of its keys, or an anonymous visitor, identified by an opaque id. */
export type UsageOwner =
  | { readonly organisation: string; readonly anchor: string; readonly keyId?: string }
  | VisitingOwner;

interface VisitingOwner {
  readonly visitor: string;
  readonly network?: string | undefined;
  /** Time in ms since 1970 that determines the month and the day in which the visitor's use counts. The default is now. */
  readonly admittedMs?: number | undefined;
}

export interface MeteredRequest {
  readonly owner: UsageOwner;
  /** Time at which the request was completed, in ms since 1970. */
  readonly atMs: number;
  readonly capacity: Capacity;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly stack?: string | undefined;
  readonly estimated?: true | undefined;
  readonly requestId: string;
  /** Number of tokens that the organisation may use in its billing period. No limit if null or absent. */
  readonly monthlyTokens?: number | null;
  readonly ttftMs?: number | undefined;
  readonly durationMs?: number;
  /** Number of tokens that all visitors together may use in a day. No limit if null or absent. */
  readonly tokensPerDay?: number | null;
  /** Set if a visitor's answer is incomplete. Then there is no row, and no turn counts, but the tokens count. */
  readonly unfinished?: true | undefined;
}

/** Maximum number of cached totals. If there are so many, all are dropped and requested again when needed. */
const totalsMax = 100_000;
const totalTimeoutMsDefault = 2_000;

export class Meter {
  readonly #options: MeterOptions;
  /** Amounts used on this gateway that `#totals` does not include yet, by account. */
  readonly #pending = new Map<string, number>();
  /** Use on all gateways together, as reported by the usage worker, by account. */
  readonly #totals = new Map<string, number>();
  /** Callers that wait for an account's total, by account. A set is empty if all its callers have timed out. */
  readonly #waiters = new Map<string, Set<() => void>>();
  readonly #backlog: Backlog;
  readonly #writer: UsageWriter;
  /** Latest state that the usage worker has reported. */
  #worker: Extract<UsageWorkerEvent, { kind: 'state' }> = {
    kind: 'state',
    taken: 0,
    shipped: 0,
    live: 1,
    unshipped: 0,
    isFull: false,
    countersPublished: 0,
    countersRejected: 0,
  };

  constructor(options: MeterOptions) {
    this.#options = options;
    const { post, writer, monotonicMs = () => performance.now() } = options;
    this.#backlog = new Backlog(monotonicMs);
    this.#writer = writer;
    writer.start(post, () => this.#backlog.onKept(writer.keptRows));
  }

  /** Whether usage can no longer be recorded safely. The gateway then refuses requests with status 503. */
  get isFull(): boolean {
    return this.#backlog.isFull;
  }

  /** Returns true if usage can be recorded at once. Otherwise, resolves when requests may continue. */
  awaitMeterCapacity(): true | Promise<void> {
    return this.#backlog.awaitMeterCapacity();
  }

  /** Number of tokens that all visitors together used on the UTC day that contains `atMs`. */
  visitorTokens(atMs: number): number {
    return this.#used(accountOfVisitors(atMs));
  }

  /** Number of counter records that were published, and of invalid ones that were received, since the process started. */
  get counterRecords(): { readonly published: number; readonly rejected: number } {
    return { published: this.#worker.countersPublished, rejected: this.#worker.countersRejected };
  }

  get unshippedRows(): number {
    return this.#worker.unshipped + this.#backlog.recorded - this.#writer.rowsBefore(this.#worker.taken);
  }

  /** Records the usage of a fully delivered response, or of a visitor's incomplete one. Returns at once and never throws. */
  record(request: MeteredRequest): void {
    const { owner, atMs, capacity } = request;
    const row = rowOf(request);
    this.#backlog.add();
    for (const amount of amountsOf(row)) this.#count(amount, 1);
    const isUrgent = capacity === 'pool' && this.#isUrgent(owner, atMs, request);
    this.#writer.add(JSON.stringify(row), isUrgent);
  }

  /** Writes all rows recorded so far to the row log, and tells the usage worker to count them. */
  sendRows(): Promise<void> {
    return this.#writer.sendAll();
  }

  /** Returns true if the owner's totals are cached. Otherwise, resolves to whether they arrived in time. */
  loadTotal(owner: UsageOwner, atMs: number): true | Promise<boolean> {
    if ('visitor' in owner) return this.#loadAll(accountsOfVisitor(owner, atMs));
    const account = accountOf(owner, atMs);
    return this.#totals.has(accountKey(account)) || this.#waitForTotal(account);
  }

  #loadAll(accounts: readonly Account[]): true | Promise<boolean> {
    const missing = accounts.filter((account) => !this.#totals.has(accountKey(account)));
    if (missing.length === 0) return true;
    const loaded = Promise.all(missing.map((account) => this.#waitForTotal(account)));
    return loaded.then((results) => results.every((isKnown) => isKnown));
  }

  /** Number of tokens used in the billing period that begins on `period`, including adjustments (specification, Limits 4). */
  poolTokens(organisation: string, period: string): number {
    const used = this.#used(accountOfOrganisation(organisation, period));
    return Math.max(used + (this.#options.adjustmentOf?.(organisation, period) ?? 0), 0);
  }

  /** Number of tokens used in the billing period that contains `atMs`. `anchor` determines where periods begin. */
  poolTokensAt(organisation: string, anchor: string, atMs: number): number {
    return this.poolTokens(organisation, billingPeriod(anchor, atMs).start);
  }

  /** Number of turns that an anonymous visitor used in the month that contains `atMs` (specification, Limits 4). */
  freeTurns(visitor: string, atMs: number): number {
    return this.#used(accountOfVisitor(visitor, atMs));
  }

  /** Number of turns that all visitors of a network used on the UTC day that contains `atMs`. */
  networkTurns(network: string, atMs: number): number {
    return this.#used(accountOfNetwork(network, atMs));
  }

  /** Must be called with each message from the usage worker, in the order in which the messages were sent. */
  onEvent(event: Extract<UsageWorkerEvent, { kind: 'state' | 'totals' }>): void {
    if (event.kind === 'state') {
      this.#worker = event;
      this.#backlog.onState({ durable: this.#writer.rowsBefore(event.taken), isFull: event.isFull });
      return;
    }
    for (const amount of event.settled) this.#count(amount, -1);
    for (const [account, total] of event.totals) this.#setTotal(account, total);
  }

  #setTotal(account: Account, total: number): void {
    const key = accountKey(account);
    const waiters = this.#waiters.get(key);
    if (waiters === undefined && !this.#totals.has(key)) return;
    if (waiters !== undefined && this.#totals.size >= totalsMax) {
      this.#totals.clear();
      this.#options.post({ kind: 'forget' });
      this.#options.post({ kind: 'total', account });
    }
    this.#totals.set(key, total);
    this.#waiters.delete(key);
    for (const resolve of waiters ?? []) resolve();
  }

  #waitForTotal(account: Account): Promise<boolean> {
    const waiters = this.#requestTotal(account);
    if (waiters === undefined) return Promise.resolve(false);
    return new Promise((resolve) => {
      const onTotal = () => {
        clearTimeout(late);
        resolve(true);
      };
      const late = setTimeout(() => {
        waiters.delete(onTotal);
        resolve(false);
      }, this.#options.totalTimeoutMs ?? totalTimeoutMsDefault);
      waiters.add(onTotal);
    });
  }

  /** Requests a total, which the worker then keeps up to date. Returns undefined if too many requests are open. */
  #requestTotal(account: Account): Set<() => void> | undefined {
    const key = accountKey(account);
    const asked = this.#waiters.get(key);
    if (asked !== undefined || this.#waiters.size >= totalsMax) return asked;
    const waiters = new Set<() => void>();
    this.#waiters.set(key, waiters);
    this.#options.post({ kind: 'total', account });
    return waiters;
  }

  /**
   * Stores the account's limit. Returns whether the use must be published at once. It must for visitors, because other
   * gateways must know of a turn before the next one. For other accounts, it must near the end of the allowance, assuming
   * that this gateway holds half of all unpublished use.
   */
  #isUrgent(
    owner: UsageOwner,
    atMs: number,
    { monthlyTokens, tokensPerDay, ...used }: MeteredRequest,
  ): boolean {
    const isVisitor = 'visitor' in owner;
    const account = isVisitor ? accountOfVisitors(owner.admittedMs ?? atMs) : accountOf(owner, atMs);
    const limit = (isVisitor ? tokensPerDay : this.#limitOf(account, monthlyTokens)) ?? null;
    const unsent = this.#writer.useLimit(
      accountKey(account),
      limit,
      used.promptTokens + used.completionTokens,
    );
    if (isVisitor || limit === null) return isVisitor;
    return isNearEnd(2 * unsent, Math.max(limit - this.#used(account), 0), this.#worker.live);
  }

  #limitOf({ subject, period }: Account, monthlyTokens: number | null | undefined): number | null {
    if (monthlyTokens == null) return null;
    return monthlyTokens - (this.#options.adjustmentOf?.(subject, period) ?? 0);
  }

  #used(account: Account): number {
    const key = accountKey(account);
    return (this.#totals.get(key) ?? 0) + (this.#pending.get(key) ?? 0);
  }

  #count([account, amount]: Amount, sign: 1 | -1): void {
    const key = accountKey(account);
    const sum = (this.#pending.get(key) ?? 0) + sign * amount;
    if (sum === 0) this.#pending.delete(key);
    else this.#pending.set(key, sum);
  }
}

function accountOf(owner: { organisation: string; anchor: string }, atMs: number): Account {
  return accountOfOrganisation(owner.organisation, billingPeriod(owner.anchor, atMs).start);
}

/** All accounts in which a visitor's request is counted. */
function accountsOfVisitor({ visitor, network, admittedMs }: VisitingOwner, nowMs: number): Account[] {
  const atMs = admittedMs ?? nowMs;
  const own = [accountOfVisitor(visitor, atMs), accountOfVisitors(atMs)];
  return network === undefined ? own : [...own, accountOfNetwork(network, atMs)];
}

/** Builds a row with its fields in the order that plain-row.ts expects. Uses a single literal, because spreading is slow. */
function rowOf(request: MeteredRequest): RecordedUsage {
  const { owner, atMs, capacity, model, promptTokens, completionTokens } = request;
  const visit = 'visitor' in owner ? owner : undefined;
  return {
    at: new Date(atMs).toISOString(),
    organisation: 'visitor' in owner ? null : owner.organisation,
    visitor: visit?.visitor,
    period: 'visitor' in owner ? null : billingPeriod(owner.anchor, atMs).start,
    draw: capacity,
    model,
    promptTokens: Math.min(promptTokens, usageTokensMax),
    completionTokens: Math.min(completionTokens, usageTokensMax),
    stack: request.stack,
    key: 'visitor' in owner ? undefined : owner.keyId,
    ttftMs: wholeMs(request.ttftMs),
    durationMs: wholeMs(request.durationMs),
    network: visit?.network,
    admittedMs: visit?.admittedMs,
    unfinished: visit && request.unfinished,
    estimated: request.estimated,
    requestId: request.requestId,
  };
}

function wholeMs(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.max(Math.round(ms), 0);
}
