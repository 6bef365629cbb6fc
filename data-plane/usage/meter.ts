/**
 * What a completed request leaves behind, and what it does to the allowance: at once on this gateway, everywhere once
 * the row was folded from the log. Its own rows count from the moment they are recorded and are taken back in the very
 * turn in which the store takes them up, so that no moment counts a row twice or not at all.
 */
import { type Draw, type UsageRow, usageTokensMax } from '../../schemas/usage.ts';
import { periodOf } from '../../shared/period.ts';
import type { AppliedUsage, UsageStore } from '../../shared/usage/usage-store.ts';
import type { Outbox } from './outbox.ts';

export interface MeterOptions {
  readonly outbox: Outbox;
  readonly store: UsageStore;
  /** Tokens added to a period by hand; negative gives allowance back. */
  readonly adjustmentOf?: (organisation: string, period: string) => number;
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

/** How long rows that were shipped again have to arrive before they are asked for once more, ms. */
const shipAgainEveryMs = 5_000;

export class Meter {
  readonly #options: MeterOptions;
  /** When rows of an incarnation were last shipped again, monotonic ms. */
  readonly #shippedAgainMs = new Map<string, number>();
  /** Own rows that the store does not have yet: tokens by organisation and period, turns by visitor. */
  readonly #pending = new Map<string, number>();
  readonly #ownIncarnations: ReadonlySet<string>;

  constructor(options: MeterOptions) {
    this.#options = options;
    const { outbox, store } = options;
    this.#ownIncarnations = new Set(outbox.incarnations());
    for (const { organisation, period, visitor, tokens, turns } of outbox.unfolded((id) =>
      store.highWater(id),
    )) {
      if (visitor !== null) this.#add(visitorKey(visitor), turns);
      else if (organisation !== null && period !== null) this.#add(tokensKey(organisation, period), tokens);
    }
  }

  /** True where no further usage can be kept: the gateway refuses with 503 until it can. */
  get isFull(): boolean {
    return this.#options.outbox.isFull;
  }

  /** Rows not yet known to be on the usage log. */
  get unshippedRows(): number {
    return this.#options.outbox.unshipped;
  }

  /** Records a request whose answer was delivered whole. Returns at once, never throws. */
  recordCompleted(request: CompletedRequest): void {
    const { owner, atMs, draw, model, stack, estimated, requestId } = request;
    const row = {
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
    if (this.#options.outbox.record(row)) this.#count(row, 1);
  }

  /** Limits 4: tokens that count against the allowance of a period (by its first day), this gateway's newest included. */
  poolTokens(organisation: string, period: string): number {
    const { store, adjustmentOf } = this.#options;
    const adjustment = adjustmentOf?.(organisation, period) ?? 0;
    const used = store.poolTokens(organisation, period) + this.#pendingOf(tokensKey(organisation, period));
    return Math.max(used + adjustment, 0);
  }

  /** The same in the period of a moment, for an organisation with this anchor day. */
  poolTokensAt(organisation: string, anchor: string, atMs: number): number {
    return this.poolTokens(organisation, periodOf(anchor, atMs).start);
  }

  /** Limits 4: turns that an anonymous visitor has had. */
  freeTurns(visitor: string): number {
    return this.#options.store.freeTurns(visitor) + this.#pendingOf(visitorKey(visitor));
  }

  /** Must be called with what the store applied, in the same turn. */
  applied({ rows, gaps }: AppliedUsage): void {
    for (const row of rows) if (this.#ownIncarnations.has(row.incarnation)) this.#count(row, -1);
    // The log lost rows that it had acknowledged: they are still here.
    for (const { incarnation, next } of gaps) {
      const beforeMs = performance.now() - shipAgainEveryMs;
      if (!this.#ownIncarnations.has(incarnation)) continue;
      if ((this.#shippedAgainMs.get(incarnation) ?? Number.NEGATIVE_INFINITY) > beforeMs) continue;
      this.#shippedAgainMs.set(incarnation, performance.now());
      this.#options.outbox.shipAgain(incarnation, next);
    }
  }

  #count(row: Omit<UsageRow, 'v' | 'incarnation' | 'n'>, sign: 1 | -1): void {
    if (row.draw !== 'pool') return;
    if (row.visitor !== undefined) this.#add(visitorKey(row.visitor), sign);
    else if (row.organisation !== null && row.period !== null)
      this.#add(tokensKey(row.organisation, row.period), sign * (row.promptTokens + row.completionTokens));
  }

  #add(key: string, amount: number): void {
    const sum = this.#pendingOf(key) + amount;
    if (sum === 0) this.#pending.delete(key);
    else this.#pending.set(key, sum);
  }

  #pendingOf(key: string): number {
    return this.#pending.get(key) ?? 0;
  }
}

function stampOf(owner: UsageOwner, atMs: number): Pick<UsageRow, 'organisation' | 'visitor' | 'period'> {
  if ('visitor' in owner) return { organisation: null, visitor: owner.visitor, period: null };
  return { organisation: owner.organisation, period: periodOf(owner.anchor, atMs).start };
}

/** No id holds a space, so the two kinds of key never meet. */
function tokensKey(organisation: string, period: string): string {
  return `${organisation} ${period}`;
}
function visitorKey(visitor: string): string {
  return visitor;
}
