/**
 * What the thread of requests and the thread of usage say to each other. Messages arrive in the order in which they were
 * sent, and that order is the whole protocol: what the desk says of an account holds from the message that says it on.
 */
import type { UsageRow } from '../../schemas/usage.ts';
import type { FaultFields } from '../../shared/runtime/fault.ts';

/** What allowances are counted for: an organisation in one period (by its first day), or a visitor. */
export type Account =
  | { readonly organisation: string; readonly period: string }
  | { readonly visitor: string };

/** Tokens of the pool, or turns of a visitor. */
export type Amount = readonly [account: Account, amount: number];

/** To the desk. */
export type DeskRequest =
  /** `rows`: an array of NewUsage as JSON, which costs half of what a copy of the objects does. */
  | { readonly kind: 'rows'; readonly rows: string }
  /** Asks for the folded total of an account; answered by `totals`. */
  | { readonly kind: 'total'; readonly account: Account }
  /** Ships what is left, for two seconds at most, and closes all; answered by `closed`. */
  | { readonly kind: 'close' };

/** From the desk. */
export type DeskNews =
  /** Once, before all else but `log`. `pending`: amounts of earlier starts that are not folded yet. */
  | { readonly kind: 'opened'; readonly pending: readonly Amount[] }
  /** Instead of `opened`: what could not be opened, in the words of the error. */
  | { readonly kind: 'failed'; readonly name: string; readonly message: string }
  | DeskState
  /** `settled`: own amounts that are now in the totals, or were given up. `totals`: folded totals from here on. */
  | { readonly kind: 'totals'; readonly settled: readonly Amount[]; readonly totals: readonly Amount[] }
  | {
      readonly kind: 'log';
      readonly level: 'warn' | 'error' | 'fatal';
      readonly fields: object;
      readonly text: string;
    }
  /** The desk cannot go on; its thread ends. */
  | { readonly kind: 'ended'; readonly fault: FaultFields }
  | { readonly kind: 'closed' };

export interface DeskState {
  readonly kind: 'state';
  /** Rows taken from messages so far. */
  readonly taken: number;
  /** Of those, how many need no more writing. */
  readonly durable: number;
  /** Rows not yet known to be on the usage log. */
  readonly unshipped: number;
  /** No further usage can be kept safely. */
  readonly isFull: boolean;
}

/** No id holds a space, so the two kinds of account never meet. */
export function accountKey(account: Account): string {
  return 'visitor' in account ? account.visitor : `${account.organisation} ${account.period}`;
}

/** What a row counts against an allowance; undefined where it was not the pool that answered. */
export function amountOf(row: Omit<UsageRow, 'v' | 'incarnation' | 'n'>): Amount | undefined {
  const { draw, visitor, organisation, period } = row;
  if (draw !== 'pool') return undefined;
  if (visitor !== undefined) return [{ visitor }, 1];
  if (organisation === null || period === null) return undefined;
  return [{ organisation, period }, row.promptTokens + row.completionTokens];
}
