/**
 * Messages between the main thread and the usage worker. The protocol relies on their order: a total is valid from its
 * message until the next message about the same account.
 */
import { type CounterEntry, visitorPrefix, visitorsSubject } from '../../schemas/records/limits.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { counterKey, type Sum } from '../../shared/limits/counters.ts';
import type { FaultFields } from '../../shared/runtime/fault.ts';
import type { LoggedLine } from '../../shared/runtime/logger.ts';
import type { LogStart } from './usage-log.ts';

/** Subject and period of an allowance: an organisation's period, a visitor's month, or a day of a network or all visitors. */
export interface Account {
  readonly subject: string;
  readonly period: string;
}

/** Tokens of the pool, or turns of a visitor or network. */
export type Amount = readonly [account: Account, amount: number];

/** Amount that an account may use in its period; null: without limit. */
export type AccountLimit = readonly [key: string, limit: number | null];

/** From the main thread to the worker. */
export type UsageWorkerRequest =
  /** The log contains the rows before this position. */
  | { readonly kind: 'written'; readonly position: number; readonly limits: readonly AccountLimit[] }
  /** Requests the total of an account; answered by `totals`. */
  | { readonly kind: 'total'; readonly account: Account }
  /** The totals are no longer cached, so only those requested from now on are sent. */
  | { readonly kind: 'forget' }
  /** Ships the remaining rows for at most two seconds and closes the files; answered by `closed`. */
  | { readonly kind: 'close' };

/** From the worker to the main thread. */
export type UsageWorkerEvent =
  /** Sent once, before all others but `log`. */
  | { readonly kind: 'opened'; readonly log: LogStart }
  /** Sent instead of `opened`, with the error that prevented it. */
  | { readonly kind: 'failed'; readonly name: string; readonly message: string }
  | UsageWorkerState
  /** `settled`: own amounts that the totals now contain, or that were dropped. `totals`: new totals of all gateways. */
  | { readonly kind: 'totals'; readonly settled: readonly Amount[]; readonly totals: readonly Amount[] }
  | ({ readonly kind: 'log' } & LoggedLine)
  /** The worker failed; its thread ends. */
  | { readonly kind: 'ended'; readonly fault: FaultFields }
  | { readonly kind: 'closed' };

export interface UsageWorkerState {
  readonly kind: 'state';
  /** Position in the log before which all rows are counted in the database. */
  readonly taken: number;
  /** Position in the log before which all rows are on the usage log, as the database knows even after a power cut. */
  readonly shipped: number;
  /** Number of live gateways, including this one. */
  readonly live: number;
  /** Rows not yet known to be on the usage log. */
  readonly unshipped: number;
  /** Whether usage can no longer be kept safely. */
  readonly isFull: boolean;
  /** Counter records published, and invalid ones received. */
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

/** Facts about a visitor's request that the counters need in addition to its row. */
export interface VisitFacts {
  /** Moment in ms since 1970 whose periods the request counts in; by default, its completion. */
  readonly admittedMs?: number | undefined;
  /** Set if the answer is incomplete: no row and no turn of the visitor, but a turn of the network, and its tokens count. */
  readonly unfinished?: true | undefined;
}

/** Account of a network, which counts turns like a visitor's, but per UTC day. */
export function accountOfNetwork(network: string, atMs: number): Account {
  return { subject: visitorPrefix + network, period: new Date(atMs).toISOString().slice(0, 10) };
}

/** Entries that a row adds to the counters; none unless the pool served the request. */
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
    // Without a turn there is no entry, because it would displace another of the latest visitors.
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

/** Amount that counts for an account: the turns of a visitor or network, the tokens of all others. */
export function amountIn(subject: string, { tokens, turns }: Sum): number {
  return subject.startsWith(visitorPrefix) ? turns : tokens;
}
