/**
 * What a completed request leaves behind, and what it does to the allowance: at once on this gateway, everywhere once
 * the row was folded from the log. Rows are handed to the desk of usage a few milliseconds after the first of them; they
 * count from the moment they are recorded until the desk says that the totals have them, so that no moment counts a
 * row twice or not at all. Nothing here waits for a disk.
 */
import { type Draw, type UsageRow, usageTokensMax } from '../../schemas/usage.ts';
import { periodOf } from '../../shared/usage/period.ts';
import type { NewUsage } from './outbox.ts';
import {
  type Account,
  type Amount,
  accountKey,
  amountOf,
  type DeskNews,
  type DeskRequest,
} from './worker-messages.ts';

export interface MeterOptions {
  /** Sends to the desk. */
  readonly ask: (request: DeskRequest) => void;
  /** Amounts of earlier starts that are not folded yet. */
  readonly pending: readonly Amount[];
  /** Tokens added to a period by hand; negative gives allowance back. */
  readonly adjustmentOf?: (organisation: string, period: string) => number;
  /** Monotonic, ms. */
  readonly monotonicMs?: () => number;
}

/** Who is billed: an organisation, or an anonymous visitor by an opaque id. */
export type UsageOwner =
  | { readonly organisation: string; readonly anchor: string }
  | { readonly visitor: string };

export interface CompletedRequest {
  readonly owner: UsageOwner;
  /** When it completed, ms since 1970. */
  readonly atMs: number;
  readonly draw: Draw;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly stack?: string;
  readonly estimated?: true;
  readonly requestId: string;
}

/** How long a row waits for others to be handed over with it, ms: with a timer's lateness it is on the disk within 10. */
const gatherMs = 4;
/** Rows that may be on their way to the disk before requests are refused; those in flight then still find room. */
const waitingRowsMax = 5_000;
/** The longest that the disk may take before requests are refused, ms. */
const waitingMsMax = 1_000;
/** How long the desk has to be heard after that, ms. */
const hearingMs = 100;
/** Accounts whose totals are remembered; more begin anew, and are asked for again. */
const totalsMax = 100_000;
/** The longest that a request waits for the total of its account, ms. */
const totalMsMax = 2_000;

export class Meter {
  readonly #options: MeterOptions;
  readonly #monotonicMs: () => number;
  /** Own amounts that the totals do not have yet, by account. */
  readonly #pending = new Map<string, number>();
  /** What the totals have, by account, as far as it was asked for. */
  readonly #totals = new Map<string, number>();
  /** Requests that wait for a total, by the account that was asked for; none where all have given up waiting. */
  readonly #waiters = new Map<string, Set<() => void>>();
  #outgoing: NewUsage[] = [];
  #handingOver: NodeJS.Timeout | undefined;
  #recorded = 0;
  /** When the oldest row that is not on the disk was recorded, or the disk last took some. */
  #waitingSinceMs = 0;
  /** Which wait was found too long, and when. */
  #late: { readonly sinceMs: number; readonly seenMs: number } | undefined;
  #desk: Extract<DeskNews, { kind: 'state' }> = {
    kind: 'state',
    taken: 0,
    durable: 0,
    unshipped: 0,
    isFull: false,
  };

  constructor(options: MeterOptions) {
    this.#options = options;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
    for (const amount of options.pending) this.#count(amount, 1);
  }

  /** True where no further usage can be kept: the gateway refuses with 503 until it can. */
  get isFull(): boolean {
    const waiting = this.#recorded - this.#desk.durable;
    if (this.#desk.isFull || waiting >= waitingRowsMax) return true;
    return waiting > 0 && this.#isLate();
  }

  /** Rows not yet known to be on the usage log. */
  get unshippedRows(): number {
    return this.#desk.unshipped + this.#recorded - this.#desk.taken;
  }

  /** Records a request whose answer was delivered whole. Returns at once, never throws. */
  recordCompleted(request: CompletedRequest): void {
    const { owner, atMs, draw, model, stack, estimated, requestId } = request;
    const row: NewUsage = {
      at: new Date(atMs).toISOString(),
      ...stampOf(owner, atMs),
      draw,
      model,
      promptTokens: Math.min(request.promptTokens, usageTokensMax),
      completionTokens: Math.min(request.completionTokens, usageTokensMax),
      ...(stack === undefined ? {} : { stack }),
      ...(estimated === undefined ? {} : { estimated }),
      requestId,
    };
    if (this.#recorded === this.#desk.durable) this.#waitingSinceMs = this.#monotonicMs();
    this.#recorded++;
    const amount = amountOf(row);
    if (amount !== undefined) this.#count(amount, 1);
    if (this.#outgoing.push(row) === 1) this.#handingOver = setTimeout(() => this.handOver(), gatherMs);
  }

  /** Where this process itself stood still, the desk's word waits to be read, in the very turn that asks for it here. */
  #isLate(): boolean {
    const nowMs = this.#monotonicMs();
    const sinceMs = this.#waitingSinceMs;
    if (nowMs - sinceMs <= waitingMsMax) return false;
    if (this.#late?.sinceMs !== sinceMs) this.#late = { sinceMs, seenMs: nowMs };
    return nowMs - this.#late.seenMs > hearingMs;
  }

  /** Hands the rows recorded so far to the desk. */
  handOver(): void {
    clearTimeout(this.#handingOver);
    if (this.#outgoing.length === 0) return;
    this.#options.ask({ kind: 'rows', rows: JSON.stringify(this.#outgoing) });
    this.#outgoing = [];
  }

  /** True where it is known what an owner has used; else resolves once it is, with false where that takes too long. */
  knows(owner: UsageOwner, atMs: number): true | Promise<boolean> {
    const account = accountOf(owner, atMs);
    return this.#totals.has(accountKey(account)) || this.#learn(account);
  }

  /** Limits 4: tokens that count against the allowance of a period (by its first day), this gateway's newest included. */
  poolTokens(organisation: string, period: string): number {
    const used = this.#used({ organisation, period });
    return Math.max(used + (this.#options.adjustmentOf?.(organisation, period) ?? 0), 0);
  }

  /** The same in the period of a moment, for an organisation with this anchor day. */
  poolTokensAt(organisation: string, anchor: string, atMs: number): number {
    return this.poolTokens(organisation, periodOf(anchor, atMs).start);
  }

  /** Limits 4: turns that an anonymous visitor has had. */
  freeTurns(visitor: string): number {
    return this.#used({ visitor });
  }

  /** To be called with what the desk says, in its order. */
  hear(news: Extract<DeskNews, { kind: 'state' | 'totals' }>): void {
    if (news.kind === 'state') {
      if (news.durable > this.#desk.durable) this.#waitingSinceMs = this.#monotonicMs();
      this.#desk = news;
      return;
    }
    for (const amount of news.settled) this.#count(amount, -1);
    for (const [account, total] of news.totals) this.#setTotal(accountKey(account), total);
  }

  #setTotal(key: string, total: number): void {
    const waiters = this.#waiters.get(key);
    if (waiters === undefined && !this.#totals.has(key)) return;
    if (waiters !== undefined && this.#totals.size >= totalsMax) this.#totals.clear();
    this.#totals.set(key, total);
    this.#waiters.delete(key);
    for (const resolve of waiters ?? []) resolve();
  }

  #learn(account: Account): Promise<boolean> {
    const waiters = this.#ask(account);
    if (waiters === undefined) return Promise.resolve(false);
    return new Promise((resolve) => {
      const onTotal = () => {
        clearTimeout(late);
        resolve(true);
      };
      const late = setTimeout(() => {
        waiters.delete(onTotal);
        resolve(false);
      }, totalMsMax);
      waiters.add(onTotal);
    });
  }

  /** Each account is asked for once, because the desk answers every question; undefined where too many are open. */
  #ask(account: Account): Set<() => void> | undefined {
    const key = accountKey(account);
    const asked = this.#waiters.get(key);
    if (asked !== undefined || this.#waiters.size >= totalsMax) return asked;
    const waiters = new Set<() => void>();
    this.#waiters.set(key, waiters);
    this.#options.ask({ kind: 'total', account });
    return waiters;
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

function accountOf(owner: UsageOwner, atMs: number): Account {
  if ('visitor' in owner) return owner;
  return { organisation: owner.organisation, period: periodOf(owner.anchor, atMs).start };
}

function stampOf(owner: UsageOwner, atMs: number): Pick<UsageRow, 'organisation' | 'visitor' | 'period'> {
  const account = accountOf(owner, atMs);
  return 'visitor' in account ? { organisation: null, visitor: account.visitor, period: null } : account;
}
