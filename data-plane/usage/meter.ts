/**
 * Records the usage of completed requests and counts it against allowances: at once on this gateway, on all others once
 * they have read its counters. Rows are sent to the usage worker in groups of a few milliseconds. A row counts as
 * pending from its recording until the worker reports that the totals include it, so it is always counted exactly once.
 * Nothing here blocks on a disk: while the worker is behind, new requests wait for it, and only a disk that fails for
 * `waitingMsMax` refuses them.
 */
import { type Draw, type UsageRow, usageTokensMax } from '../../schemas/usage.ts';
import { periodOf } from '../../shared/usage/period.ts';
import type { RecordedUsage } from './rows.ts';
import {
  type Account,
  type AccountLimit,
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
  /** Tokens added to a period by hand; negative gives allowance back. */
  readonly adjustmentOf?: (organisation: string, period: string) => number;
  /** Monotonic, ms. */
  readonly monotonicMs?: () => number;
  /** The longest that a request waits for the total of its account; 2 s unless it is given. */
  readonly totalTimeoutMs?: number;
}

/** Who is billed: an organisation, or an anonymous visitor by an opaque id. */
export type UsageOwner =
  | { readonly organisation: string; readonly anchor: string }
  | { readonly visitor: string; readonly network?: string | undefined };

export interface MeteredRequest {
  readonly owner: UsageOwner;
  /** When it completed, ms since 1970. */
  readonly atMs: number;
  readonly draw: Draw;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly stack?: string | undefined;
  readonly estimated?: true | undefined;
  readonly requestId: string;
  /** Tokens that the owner may use in the period; null or left out: without limit. */
  readonly monthlyTokens?: number | null;
  /** Id of the key. */
  readonly key?: string | undefined;
  readonly ttftMs?: number | undefined;
  readonly durationMs?: number;
  /** Tokens that all visitors together may use in a day; null or left out: without limit. */
  readonly tokensPerDay?: number | null;
  /** Of a visitor: the moment of whose periods its subjects are; `atMs` where it is left out. */
  readonly admittedMs?: number | undefined;
  /** Of a visitor: the answer did not end, so that it is no turn and leaves no row, but its tokens count. */
  readonly unfinished?: true | undefined;
}

interface CatchUp {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

/** Rows recorded within this time are sent together, ms: with a timer's lateness a row is with the worker within 10. */
const groupMs = 7;
/** From so many rows not on the disk, or once it has accepted none for so long, new requests wait for the worker. */
const behindRows = 1_000;
const behindMs = 350;
/** Rows not on the disk yet above which requests are refused; requests in flight can still be recorded. */
const waitingRowsMax = 5_000;
/** Requests are refused once the disk has accepted no row for longer, ms. */
const waitingMsMax = 3_000;
/** How long after that the worker's state may still arrive, ms. */
const stateGraceMs = 100;
/** Accounts whose totals are cached; beyond that the cache is cleared and totals are requested again. */
const totalsMax = 100_000;
const totalTimeoutMsDefault = 2_000;

export class Meter {
  readonly #options: MeterOptions;
  readonly #monotonicMs: () => number;
  /** Own amounts that the totals do not include yet, by account. */
  readonly #pending = new Map<string, number>();
  /** Totals of all gateways, by account, as far as they were requested. */
  readonly #totals = new Map<string, number>();
  /** Callers that wait for a requested total, by account; an empty set where all have timed out. */
  readonly #waiters = new Map<string, Set<() => void>>();
  /** Rows for the worker, as the text of a group. */
  #outgoing = '';
  #outgoingRows = 0;
  /** What the accounts of the outgoing rows may use, adjustments included, and what the rows use of it. */
  readonly #limits = new Map<string, AccountLimit>();
  #sendTimer: NodeJS.Timeout | undefined;
  #recorded = 0;
  /** When the oldest unwritten row was recorded, or when rows last became durable. */
  #waitingSinceMs = 0;
  /** The wait that was found too long, and when that was first seen. */
  #late: { readonly sinceMs: number; readonly seenMs: number } | undefined;
  /** Since when the worker reports that it can keep no more rows. */
  #workerFullSinceMs = Number.POSITIVE_INFINITY;
  /** New requests wait for this while the worker is behind. */
  #caughtUp: CatchUp | undefined;
  /** The worker's last state. */
  #worker: Extract<UsageWorkerEvent, { kind: 'state' }> = {
    kind: 'state',
    received: 0,
    durable: 0,
    unshipped: 0,
    isFull: false,
    countersPublished: 0,
    countersRejected: 0,
  };

  constructor(options: MeterOptions) {
    this.#options = options;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
  }

  /** True where no further usage can be recorded safely: the gateway refuses with 503 until it can. */
  get isFull(): boolean {
    const waiting = this.#recorded - this.#worker.durable;
    if (waiting >= waitingRowsMax) return true;
    if (this.#monotonicMs() - this.#workerFullSinceMs > waitingMsMax) return true;
    return waiting > 0 && this.#isLate();
  }

  /** True while the worker keeps up; else resolves once it does, or once `isFull` decides: back-pressure before refusals. */
  keepsUp(): true | Promise<void> {
    if (!this.#isBehind() || this.isFull) return true;
    this.#caughtUp ??= this.#waitForWorker();
    return this.#caughtUp.promise;
  }

  /** Tokens that all visitors together used on the day of a moment. */
  visitorTokens(atMs: number): number {
    return this.#used(accountOfVisitors(atMs));
  }

  /** Records of counters published, and records of others that were no valid ones, since the start. */
  get counterRecords(): { readonly published: number; readonly rejected: number } {
    return { published: this.#worker.countersPublished, rejected: this.#worker.countersRejected };
  }

  /** Rows not yet known to be on the usage log. */
  get unshippedRows(): number {
    return this.#worker.unshipped + this.#recorded - this.#worker.received;
  }

  /** Records a request whose answer was delivered whole, or a visitor's that was not. Returns at once, never throws. */
  record(request: MeteredRequest): void {
    const { owner, atMs, draw, model, stack, estimated, requestId } = request;
    const row: RecordedUsage = {
      at: new Date(atMs).toISOString(),
      ...stampOf(owner, atMs),
      draw,
      model,
      promptTokens: Math.min(request.promptTokens, usageTokensMax),
      completionTokens: Math.min(request.completionTokens, usageTokensMax),
      ...(stack === undefined ? {} : { stack }),
      ...factsOf(request),
      ...('visitor' in owner && visitFactsOf(owner, request)),
      ...(estimated === undefined ? {} : { estimated }),
      requestId,
    };
    if (this.#recorded === this.#worker.durable) this.#waitingSinceMs = this.#monotonicMs();
    this.#recorded++;
    for (const amount of amountsOf(row)) this.#count(amount, 1);
    if (draw === 'pool') this.#setLimits(owner, request.admittedMs ?? atMs, request);
    this.#outgoing += `${JSON.stringify(row)},\n`;
    if (++this.#outgoingRows === 1) this.#sendTimer = setTimeout(() => this.sendRows(), groupMs);
  }

  /** After an event-loop stall the worker's state may still be queued, so `stateGraceMs` passes before the disk is late. */
  #isLate(): boolean {
    const nowMs = this.#monotonicMs();
    const sinceMs = this.#waitingSinceMs;
    if (nowMs - sinceMs <= waitingMsMax) return false;
    if (this.#late?.sinceMs !== sinceMs) this.#late = { sinceMs, seenMs: nowMs };
    return nowMs - this.#late.seenMs > stateGraceMs;
  }

  #isBehind(): boolean {
    const waiting = this.#recorded - this.#worker.durable;
    if (waiting === 0) return this.#worker.isFull;
    return waiting >= behindRows || this.#monotonicMs() - this.#waitingSinceMs > behindMs;
  }

  /** One promise for all requests that wait; it ends a little after `isFull` must have been decided. */
  #waitForWorker(): CatchUp {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      const late = setTimeout(() => this.#release(), waitingMsMax + 2 * stateGraceMs);
      resolve = () => {
        clearTimeout(late);
        done();
      };
    });
    return { promise, resolve };
  }

  #release(): void {
    const waiting = this.#caughtUp;
    this.#caughtUp = undefined;
    waiting?.resolve();
  }

  /** Sends the rows recorded so far to the worker. */
  sendRows(): void {
    clearTimeout(this.#sendTimer);
    if (this.#outgoingRows === 0) return;
    const limits = [...this.#limits.values()];
    const group = { rows: this.#outgoing, count: this.#outgoingRows };
    this.#options.post({ kind: 'rows', group, limits });
    this.#outgoing = '';
    this.#outgoingRows = 0;
    this.#limits.clear();
  }

  /** True where the owner's total is cached; else resolves true once it has arrived, or false after a timeout. */
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

  /** Limits 4: tokens that count against the allowance of a period (by its first day), this gateway's newest included. */
  poolTokens(organisation: string, period: string): number {
    const used = this.#used(accountOfOrganisation(organisation, period));
    return Math.max(used + (this.#options.adjustmentOf?.(organisation, period) ?? 0), 0);
  }

  /** The same in the period of a moment, for an organisation with this anchor day. */
  poolTokensAt(organisation: string, anchor: string, atMs: number): number {
    return this.poolTokens(organisation, periodOf(anchor, atMs).start);
  }

  /** Limits 4: turns that an anonymous visitor has used. */
  freeTurns(visitor: string, atMs: number): number {
    return this.#used(accountOfVisitor(visitor, atMs));
  }

  /** The same of all visitors of a network, on the day of a moment. */
  networkTurns(network: string, atMs: number): number {
    return this.#used(accountOfNetwork(network, atMs));
  }

  /** Must be called with the worker's messages in their order. */
  onEvent(event: Extract<UsageWorkerEvent, { kind: 'state' | 'totals' }>): void {
    if (event.kind === 'state') {
      if (event.durable > this.#worker.durable) this.#waitingSinceMs = this.#monotonicMs();
      if (!event.isFull) this.#workerFullSinceMs = Number.POSITIVE_INFINITY;
      else if (!this.#worker.isFull) this.#workerFullSinceMs = this.#monotonicMs();
      this.#worker = event;
      if (this.#caughtUp !== undefined && !this.#isBehind()) this.#release();
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

  /** One request an account, because the worker answers each; undefined where too many are open. */
  #requestTotal(account: Account): Set<() => void> | undefined {
    const key = accountKey(account);
    const asked = this.#waiters.get(key);
    if (asked !== undefined || this.#waiters.size >= totalsMax) return asked;
    const waiters = new Set<() => void>();
    this.#waiters.set(key, waiters);
    this.#options.post({ kind: 'total', account });
    return waiters;
  }

  /** So that use is published early where little is left. */
  #setLimits(
    owner: UsageOwner,
    atMs: number,
    { monthlyTokens, tokensPerDay, ...used }: MeteredRequest,
  ): void {
    const account = 'visitor' in owner ? accountOfVisitors(atMs) : accountOf(owner, atMs);
    const key = accountKey(account);
    const limit = 'visitor' in owner ? tokensPerDay : this.#limitOf(account, monthlyTokens);
    const [, , before] = this.#limits.get(key) ?? [key, null, 0];
    this.#limits.set(key, [key, limit ?? null, before + used.promptTokens + used.completionTokens]);
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
  return accountOfOrganisation(owner.organisation, periodOf(owner.anchor, atMs).start);
}

/** All that count where a visitor asks. */
function accountsOfVisitor(
  { visitor, network }: Extract<UsageOwner, { visitor: string }>,
  atMs: number,
): Account[] {
  const own = [accountOfVisitor(visitor, atMs), accountOfVisitors(atMs)];
  return network === undefined ? own : [...own, accountOfNetwork(network, atMs)];
}

function stampOf(owner: UsageOwner, atMs: number): Pick<UsageRow, 'organisation' | 'visitor' | 'period'> {
  if ('visitor' in owner) return { organisation: null, visitor: owner.visitor, period: null };
  return { organisation: owner.organisation, period: periodOf(owner.anchor, atMs).start };
}

function visitFactsOf(
  { network }: Extract<UsageOwner, { visitor: string }>,
  { admittedMs, unfinished }: MeteredRequest,
): Pick<RecordedUsage, 'network' | 'admittedMs' | 'unfinished'> {
  const facts: Writable<Pick<RecordedUsage, 'network' | 'admittedMs' | 'unfinished'>> = {};
  if (network !== undefined) facts.network = network;
  if (admittedMs !== undefined) facts.admittedMs = admittedMs;
  if (unfinished) facts.unfinished = unfinished;
  return facts;
}

type Writable<Of> = { -readonly [Name in keyof Of]: Of[Name] };

/** What a row shows of a request in addition to its tokens. */
function factsOf(request: MeteredRequest): Pick<UsageRow, 'key' | 'ttftMs' | 'durationMs'> {
  const { key, ttftMs, durationMs } = request;
  const facts: Writable<Pick<UsageRow, 'key' | 'ttftMs' | 'durationMs'>> = {};
  if (key !== undefined) facts.key = key;
  if (ttftMs !== undefined) facts.ttftMs = Math.max(Math.round(ttftMs), 0);
  if (durationMs !== undefined) facts.durationMs = Math.max(Math.round(durationMs), 0);
  return facts;
}
