/**
 * The messages between the main thread and the usage worker. They arrive in the order in which they were sent, and the
 * protocol relies on it: a total is valid from its message until the next message about the same account.
 */
import type { UsageRow } from '../../schemas/usage.ts';
import type { FaultFields } from '../../shared/runtime/fault.ts';

/** What allowances are counted for: an organisation in one period (by its first day), or a visitor. */
export type Account =
  | { readonly organisation: string; readonly period: string }
  | { readonly visitor: string };

/** Tokens of the pool, or turns of a visitor. */
export type Amount = readonly [account: Account, amount: number];

/** From the main thread to the worker. */
export type UsageWorkerRequest =
  /** `rows`: an array of NewUsage as JSON, which costs half of what a copy of the objects does. */
  | { readonly kind: 'rows'; readonly rows: string }
  /** Requests the folded total of an account; answered by `totals`. */
  | { readonly kind: 'total'; readonly account: Account }
  /** Ships the remaining rows for at most two seconds and closes the files; answered by `closed`. */
  | { readonly kind: 'close' };

/** From the worker to the main thread. */
export type UsageWorkerEvent =
  /** Once, before all others but `log`. `pending`: amounts of earlier process starts that are not folded yet. */
  | { readonly kind: 'opened'; readonly pending: readonly Amount[] }
  /** Instead of `opened`: the error that prevented it. */
  | { readonly kind: 'failed'; readonly name: string; readonly message: string }
  | UsageWorkerState
  /** `settled`: own amounts that are now in the totals, or were dropped. `totals`: folded totals from here on. */
  | { readonly kind: 'totals'; readonly settled: readonly Amount[]; readonly totals: readonly Amount[] }
  | {
      readonly kind: 'log';
      readonly level: 'warn' | 'error' | 'fatal';
      readonly fields: object;
      readonly text: string;
    }
  /** The worker failed; its thread ends. */
  | { readonly kind: 'ended'; readonly fault: FaultFields }
  | { readonly kind: 'closed' };

export interface UsageWorkerState {
  readonly kind: 'state';
  /** Rows received in messages so far. */
  readonly received: number;
  /** Of those, how many are on the disk or were dropped. */
  readonly durable: number;
  /** Rows not yet known to be on the usage log. */
  readonly unshipped: number;
  /** No further usage can be kept safely. */
  readonly isFull: boolean;
}

/** No id contains a space, so the two kinds of account have different keys. */
export function accountKey(account: Account): string {
  return 'visitor' in account ? account.visitor : `${account.organisation} ${account.period}`;
}

/** The amount by which a row uses up an allowance; undefined unless the pool served the request. */
export function amountOf(row: Omit<UsageRow, 'v' | 'incarnation' | 'n'>): Amount | undefined {
  const { draw, visitor, organisation, period } = row;
  if (draw !== 'pool') return undefined;
  if (visitor !== undefined) return [{ visitor }, 1];
  if (organisation === null || period === null) return undefined;
  return [{ organisation, period }, row.promptTokens + row.completionTokens];
}
