/**
 * Messages between the main thread and the usage worker. Their order matters, because a total is valid until the next message
 * about the same account.
 */
import { type CounterEntry, visitorPrefix, visitorsSubject } from '../../schemas/records/limits.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { counterKey, type Sum } from '../../shared/limits/counters.ts';
import type { FaultFields } from '../../shared/runtime/fault.ts';
import type { LoggedLine } from '../../shared/runtime/logger.ts';
import type { LogStart } from './usage-log.ts';

/** A subject and a period: an organisation's billing period, a visitor's month, or a network's or all visitors' day. */
export interface Account {
  readonly subject: string;
  readonly period: string;
}

/** Amount used of an account: turns for a visitor or network, tokens for all others. */
export type Amount = readonly [account: Account, amount: number];

/** Maximum amount that an account may use in its period, or null if it has no limit. */
export type AccountLimit = readonly [key: string, limit: number | null];

/** Message from the main thread to the worker. */
export type UsageWorkerRequest =
  /** Says that the row log contains all rows before this position. */
  | { readonly kind: 'written'; readonly position: number; readonly limits: readonly AccountLimit[] }
  /** Requests the total of an account. The reply is `totals`, now and whenever the total changes. */
  | { readonly kind: 'total'; readonly account: Account }
  /** Says that the main thread has dropped all totals. The worker must only send those that are requested from now on. */
  | { readonly kind: 'forget' }
  /** Ships the remaining rows, for at most two seconds, and closes the files. The reply is `closed`. */
  | { readonly kind: 'close' };

/** Message from the worker to the main thread. */
export type UsageWorkerEvent =
  /** Says that the worker is open. Sent once, before all other messages except `log`. */
  | { readonly kind: 'opened'; readonly log: LogStart }
  /** Says why the worker could not be opened. Sent instead of `opened`. */
  | { readonly kind: 'failed'; readonly name: string; readonly message: string }
  | UsageWorkerState
  /** New totals over all gateways. They include the `settled` amounts of this gateway, except those that were refused. */
  | { readonly kind: 'totals'; readonly settled: readonly Amount[]; readonly totals: readonly Amount[] }
  | ({ readonly kind: 'log' } & LoggedLine)
  /** Says that the worker has failed. Its thread ends. */
  | { readonly kind: 'ended'; readonly fault: FaultFields }
  | { readonly kind: 'closed' };

export interface UsageWorkerState {
  readonly kind: 'state';
  /** Position in the row log before which all rows are counted in the database. */
  readonly taken: number;
  /** Position in the row log before which all rows count as shipped to the usage log, even after a power cut. */
  readonly shipped: number;
  /** Number of live gateways, including this one. */
  readonly live: number;
  /** Number of counted rows that are not known to be on the usage log. */
  readonly unshipped: number;
  /** Whether the worker can no longer record usage safely. */
  readonly isFull: boolean;
  /** Number of counter records that were published, and of invalid ones that were received. */
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

/** Facts about a visitor's request that counters need, but usage rows do not contain. */
export interface VisitFacts {
  /** Time in ms since 1970 that determines the periods in which the request counts. The default is its completion. */
  readonly admittedMs?: number | undefined;
  /** Set if the answer is incomplete. It then leaves no row or visitor's turn, but tokens and the network's turn count. */
  readonly unfinished?: true | undefined;
}

/** Account for the turns of a network on a UTC day. */
export function accountOfNetwork(network: string, atMs: number): Account {
  return { subject: visitorPrefix + network, period: new Date(atMs).toISOString().slice(0, 10) };
}

/** Sums that a usage row adds to the counters. There are none unless the pool served the request. */
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
    // Add no entry for a visitor who has used no turn, because it would push out a more recent visitor's entry.
    ...(unfinished ? [] : [entry(accountOfVisitor(visitor, atMs), 1)]),
    ...(network === undefined ? [] : [entry(accountOfNetwork(network, atMs), 1)]),
    entry(accountOfVisitors(atMs), unfinished ? 0 : 1),
  ];
}

/** Amounts that a usage row takes from allowances. */
export function amountsOf(row: CountedUsage): Amount[] {
  return entriesOf(row, row).map(([subject, period, tokens, turns]) => [
    { subject, period },
    amountIn(subject, { tokens, turns }),
  ]);
}

/** The part of a sum that an account counts: turns for a visitor or network, tokens for all others. */
export function amountIn(subject: string, { tokens, turns }: Sum): number {
  return subject.startsWith(visitorPrefix) ? turns : tokens;
}
