/**
 * The messages between the main thread and the usage worker. They arrive in the order in which they were sent, and the
 * protocol relies on it: a total is valid from its message until the next message about the same account.
 */
import { type CounterEntry, visitorPrefix, visitorsSubject } from '../../schemas/records/limits.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { counterKey, type Sum } from '../../shared/limits/counters.ts';
import type { FaultFields } from '../../shared/runtime/fault.ts';
import type { LoggedLine } from '../../shared/runtime/logger.ts';
import type { LogStart } from './usage-log.ts';

/**
 * What allowances are counted for, by the subject and period of its counters: an organisation in one period (by its first
 * day), a visitor in a month, or all visitors of a day.
 */
export interface Account {
  readonly subject: string;
  readonly period: string;
}

/** Tokens of the pool, or turns of a visitor. */
export type Amount = readonly [account: Account, amount: number];

/** What an account may use in its period (null: without limit). */
export type AccountLimit = readonly [key: string, limit: number | null];

/** From the main thread to the worker. */
export type UsageWorkerRequest =
  /** The log has the rows before this position. */
  | { readonly kind: 'written'; readonly position: number; readonly limits: readonly AccountLimit[] }
  /** Requests the total of an account; answered by `totals`. */
  | { readonly kind: 'total'; readonly account: Account }
  /** No totals are cached any more: only those requested from here on are sent. */
  | { readonly kind: 'forget' }
  /** Ships the remaining rows for at most two seconds and closes the files; answered by `closed`. */
  | { readonly kind: 'close' };

/** From the worker to the main thread. */
export type UsageWorkerEvent =
  /** Once, before all others but `log`. */
  | { readonly kind: 'opened'; readonly log: LogStart }
  /** Instead of `opened`: the error that prevented it. */
  | { readonly kind: 'failed'; readonly name: string; readonly message: string }
  | UsageWorkerState
  /** `settled`: own amounts that are now in the totals, or were dropped. `totals`: of all gateways, from here on. */
  | { readonly kind: 'totals'; readonly settled: readonly Amount[]; readonly totals: readonly Amount[] }
  | ({ readonly kind: 'log' } & LoggedLine)
  /** The worker failed; its thread ends. */
  | { readonly kind: 'ended'; readonly fault: FaultFields }
  | { readonly kind: 'closed' };

export interface UsageWorkerState {
  readonly kind: 'state';
  /** Position in the log: rows before it are counted in the database. */
  readonly taken: number;
  /** Position in the log: the database knows, also after a power cut, that rows before it are on the usage log. */
  readonly shipped: number;
  /** Gateways that are live, this one included. */
  readonly live: number;
  /** Rows not yet known to be on the usage log. */
  readonly unshipped: number;
  /** No further usage can be kept safely. */
  readonly isFull: boolean;
  /** Records of counters published, and records of others that were no valid ones. */
  readonly countersPublished: number;
  readonly countersRejected: number;
}

export function accountKey({ subject, period }: Account): string {
  return counterKey(subject, period);
}

export function accountOfOrganisation(organisation: string, period: string): Account {
  return { subject: organisation, period };
}

export function accountOfVisitor(visitor: string, atMs: number): Account {
  return { subject: visitorPrefix + visitor, period: new Date(atMs).toISOString().slice(0, 7) };
}

export function accountOfVisitors(atMs: number): Account {
  return { subject: visitorsSubject, period: new Date(atMs).toISOString().slice(0, 10) };
}

type CountedUsage = Omit<UsageRow, 'v' | 'incarnation' | 'n'> & VisitFacts;

/** What the counters need to know of a visitor's request in addition to its row. */
export interface VisitFacts {
  /** The moment whose periods it counts in, ms since 1970: that of its completion where it is left out. */
  readonly admittedMs?: number | undefined;
  /** The answer did not end: it is no row and no turn of the visitor, but one of the network, and its tokens count. */
  readonly unfinished?: true | undefined;
}

/** Counted as visitors are, in turns, but by the UTC day. */
export function accountOfNetwork(network: string, atMs: number): Account {
  return { subject: visitorPrefix + network, period: new Date(atMs).toISOString().slice(0, 10) };
}

/** What a row adds to the counters: nothing unless the pool served the request. */
export function entriesOf(
  row: Omit<CountedUsage, keyof VisitFacts>,
  { admittedMs, unfinished }: VisitFacts,
): CounterEntry[] {
  const { draw, visitor, network, organisation, period } = row;
  const tokens = row.promptTokens + row.completionTokens;
  if (draw !== 'pool') return [];
  if (organisation !== null && period !== null) return [[organisation, period, tokens, 1]];
  if (visitor === undefined) return [];
  const atMs = admittedMs ?? Date.parse(row.at);
  const entry = (account: Account, turns: number): CounterEntry => [
    account.subject,
    account.period,
    tokens,
    turns,
  ];
  return [
    // None without a turn, because it would push others out of the latest visitors.
    ...(unfinished ? [] : [entry(accountOfVisitor(visitor, atMs), 1)]),
    ...(network === undefined ? [] : [entry(accountOfNetwork(network, atMs), 1)]),
    entry(accountOfVisitors(atMs), unfinished ? 0 : 1),
  ];
}

/** The amounts by which a row uses up allowances. */
export function amountsOf(row: CountedUsage): Amount[] {
  return entriesOf(row, row).map(([subject, period, tokens, turns]) => [
    { subject, period },
    amountIn(subject, { tokens, turns }),
  ]);
}

/** What counts of an account: the turns of a visitor or network, the tokens of all others. */
export function amountIn(subject: string, { tokens, turns }: Sum): number {
  return subject.startsWith(visitorPrefix) ? turns : tokens;
}
