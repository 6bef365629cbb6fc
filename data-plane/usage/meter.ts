/**
 * Records the usage of completed requests and counts it against allowances: at once on this gateway, on others once they have
 * read its counters. A row is pending until the worker reports that the totals include it, so it is always counted exactly
 * once. Nothing here blocks on a disk: new requests wait while the log or the worker is behind, and are refused only if a
 * disk fails for seconds (backlog.ts).
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
  /** Sends to the usage worker. */
  readonly post: (request: UsageWorkerRequest) => void;
  /** Writer of the log that the worker follows. */
  readonly writer: UsageWriter;
  /** Tokens added to a period by hand; negative gives allowance back. */
  readonly adjustmentOf?: (organisation: string, period: string) => number;
  /** Monotonic clock in ms. */
  readonly monotonicMs?: () => number;
  /** Longest wait for the total of an account, in ms; 2 s by default. */
  readonly totalTimeoutMs?: number;
}

/** Billed party: an organisation by one of its keys, or an anonymous visitor by an opaque id. */
export type UsageOwner =
  | { readonly organisation: string; readonly anchor: string; readonly keyId?: string }
  | VisitingOwner;

interface VisitingOwner {
  readonly visitor: string;
  readonly network?: string | undefined;
  /** Moment whose month and day the visitor's subjects belong to, in ms since 1970; by default, that of the call. */
  readonly admittedMs?: number | undefined;
}

export interface MeteredRequest {
  readonly owner: UsageOwner;
  /** Time of completion, in ms since 1970. */
  readonly atMs: number;
  readonly capacity: Capacity;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly stack?: string | undefined;
  readonly estimated?: true | undefined;
  readonly requestId: string;
  /** Tokens that the owner may use in the period; null or absent: without limit. */
  readonly monthlyTokens?: number | null;
  readonly ttftMs?: number | undefined;
  readonly durationMs?: number;
  /** Tokens that all visitors together may use per day; null or absent: without limit. */
  readonly tokensPerDay?: number | null;
  /** Set for a visitor's incomplete answer. It does not count as a turn or leave a row, but its tokens count. */
  readonly unfinished?: true | undefined;
}

/** Accounts whose totals are cached; beyond that the cache is cleared and totals are requested again. */
const totalsMax = 100_000;
const totalTimeoutMsDefault = 2_000;

export class Meter {
  readonly #options: MeterOptions;
  /** Own amounts that the totals do not include yet, by account. */
  readonly #pending = new Map<string, number>();
  /** Requested totals of all gateways, by account. */
  readonly #totals = new Map<string, number>();
  /** Callers that wait for a requested total, by account; an empty set if all have timed out. */
  readonly #waiters = new Map<string, Set<() => void>>();
  readonly #backlog: Backlog;
  readonly #writer: UsageWriter;
  /** The worker's last state. */
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

  /** Whether usage can no longer be recorded safely. The gateway then refuses with 503. */
  get isFull(): boolean {
    return this.#backlog.isFull;
  }

  /** True if usage can be recorded at once; otherwise resolves once requests may continue. */
  awaitMeterCapacity(): true | Promise<void> {
    return this.#backlog.awaitMeterCapacity();
  }

  /** Tokens that all visitors together used on the day of `atMs`. */
  visitorTokens(atMs: number): number {
    return this.#used(accountOfVisitors(atMs));
  }

  /** Counter records published, and invalid ones received, since the start. */
  get counterRecords(): { readonly published: number; readonly rejected: number } {
    return { published: this.#worker.countersPublished, rejected: this.#worker.countersRejected };
  }

  get unshippedRows(): number {
    return this.#worker.unshipped + this.#backlog.recorded - this.#writer.rowsBefore(this.#worker.taken);
  }

  /** Records a completely delivered answer, or a visitor's incomplete one. Returns at once and never throws. */
  record(request: MeteredRequest): void {
    const { owner, atMs, capacity } = request;
    const row = rowOf(request);
    this.#backlog.add();
    for (const amount of amountsOf(row)) this.#count(amount, 1);
    const isUrgent = capacity === 'pool' && this.#isUrgent(owner, atMs, request);
    this.#writer.add(JSON.stringify(row), isUrgent);
  }

  /** Writes the rows recorded so far, and makes the worker count them. */
  sendRows(): Promise<void> {
    return this.#writer.sendAll();
  }

  /** True if the owner's total is cached; otherwise resolves with whether it arrived before a timeout. */
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

  /** Tokens that count against a period's allowance (Limits 4), this gateway's newest included. `period` is its first day. */
  poolTokens(organisation: string, period: string): number {
    const used = this.#used(accountOfOrganisation(organisation, period));
    return Math.max(used + (this.#options.adjustmentOf?.(organisation, period) ?? 0), 0);
  }

  /** Tokens that count in the period of `atMs`, for an organisation with this anchor day. */
  poolTokensAt(organisation: string, anchor: string, atMs: number): number {
    return this.poolTokens(organisation, billingPeriod(anchor, atMs).start);
  }

  /** Turns that an anonymous visitor has used (Limits 4). */
  freeTurns(visitor: string, atMs: number): number {
    return this.#used(accountOfVisitor(visitor, atMs));
  }

  /** Turns of all visitors of a network on the day of `atMs`. */
  networkTurns(network: string, atMs: number): number {
    return this.#used(accountOfNetwork(network, atMs));
  }

  /** Handles a message of the worker. Pass messages in the order in which they were sent. */
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

  /** Requests a total once per account, because the worker answers each request. Returns undefined if too many are open. */
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
   * Notes the account's limit. Returns whether to publish its use at once: for visitors, whose few turns must reach other
   * gateways before the next one, and for others near the end, where half of what may be held back may be here.
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

/** Accounts that a visitor's request counts in. */
function accountsOfVisitor({ visitor, network, admittedMs }: VisitingOwner, nowMs: number): Account[] {
  const atMs = admittedMs ?? nowMs;
  const own = [accountOfVisitor(visitor, atMs), accountOfVisitors(atMs)];
  return network === undefined ? own : [...own, accountOfNetwork(network, atMs)];
}

/** Builds a row, in the order of fields that plain-row.ts recognises. One literal, because a spread part costs as much. */
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
