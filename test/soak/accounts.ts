/**
 * Compares three accounts of the same requests: what clients received in full, what was billed, and what nodes finished. For
 * every client, received ≤ billed ≤ finished must hold. Every difference must be explained by a request that the client
 * abandoned, that the kill of a gateway interrupted, or that the gateway gave up.
 */
import type { UsageRow } from '../../schemas/records/usage.ts';
import { promptTokensOf, type Result } from './clients.ts';

export interface Accounts {
  readonly seen: readonly Result[];
  readonly rows: readonly UsageRow[];
  /** Number of responses that nodes finished, by model. */
  readonly finished: ReadonlyMap<string, number>;
  /** Whether the usage row of this completed request may be missing. Called once per missing row. */
  readonly mayBeMissing?: (seen: Result) => boolean;
  /** Whether this request ended because its gateway was killed. */
  readonly wasKilled?: (seen: Result) => boolean;
}

export interface SettledAccounts {
  readonly clients: number;
  readonly rows: number;
  readonly nodes: number;
  /** Number of billed requests that the client did not receive in full, because it left or lost its gateway. */
  readonly billedNotReceived: number;
  /** Number of requests that a node finished but that were not billed. The client received none of them in full. */
  readonly finishedNotBilled: number;
  /** Number of requests that were received in full but not billed. */
  readonly missing: number;
  /** Descriptions of the differences that no request explains. */
  readonly faults: readonly string[];
}

const never = (): boolean => false;

export function settle(accounts: Accounts): SettledAccounts {
  const { seen, rows, finished, mayBeMissing = never, wasKilled = never } = accounts;
  const faults: string[] = [];
  const byModel = new Map<string, Book>();
  const book = (model: string): Book => {
    const known = byModel.get(model) ?? new Book();
    byModel.set(model, known);
    return known;
  };
  for (const one of seen) book(one.model).seen.push(one);
  for (const row of rows) book(row.model).rows.push(row);
  const total = { clients: 0, rows: rows.length, nodes: 0, billedNotReceived: 0, missing: 0 };
  for (const [model, { seen: theirs, rows: billed }] of byModel) {
    const nodes = finished.get(model) ?? 0;
    const completed = theirs.filter((one) => one.completed);
    const found = matchRows(theirs, billed, { mayBeMissing, wasKilled });
    faults.push(...found.faults);
    total.clients += completed.length;
    total.nodes += nodes;
    total.billedNotReceived += found.billedNotReceived;
    total.missing += found.missing;
    if (billed.length > nodes) faults.push(`${model}: ${billed.length} rows, but nodes finished ${nodes}`);
    const notReceived = theirs.filter((one) => !one.completed && mayHaveReachedANode(one)).length;
    const explained = notReceived - found.billedNotReceived + found.missing;
    if (nodes - billed.length > explained)
      faults.push(
        `${model}: nodes finished ${nodes}, ${billed.length} rows, ${explained} requests to explain it`,
      );
  }
  return { ...total, finishedNotBilled: total.nodes - total.rows, faults };
}

class Book {
  readonly seen: Result[] = [];
  readonly rows: UsageRow[] = [];
}

/**
 * Whether a node may have finished a request that the client did not receive. Limits refuse a request before it reaches a
 * node.
 */
function mayHaveReachedANode({ refusal }: Result): boolean {
  return refusal === undefined || refusal === 'InferenceUnavailableError';
}

/** Matches one client's requests with its usage rows. */
function matchRows(
  seen: readonly Result[],
  rows: readonly UsageRow[],
  { mayBeMissing, wasKilled }: Required<Pick<Accounts, 'mayBeMissing' | 'wasKilled'>>,
): { faults: string[]; billedNotReceived: number; missing: number } {
  const faults: string[] = [];
  const left = new Map<string, UsageRow>();
  for (const row of rows) {
    if (left.has(row.requestId)) faults.push(`${row.requestId} was billed twice`);
    left.set(row.requestId, row);
  }
  let missing = 0;
  let billedNotReceived = 0;
  for (const one of seen) {
    const row = one.requestId === undefined ? undefined : left.get(one.requestId);
    if (row !== undefined) left.delete(row.requestId);
    if (row === undefined && one.completed) {
      missing++;
      if (!mayBeMissing(one)) faults.push(`${one.requestId} was received whole and not billed`);
    }
    if (row === undefined) continue;
    if (!isOf(row, one)) faults.push(`${one.requestId} was billed with other tokens`);
    if (one.completed) continue;
    billedNotReceived++;
    // Only a client that left or lost its gateway may be billed for a response that it did not receive.
    if (one.whole || !(one.left || wasKilled(one)))
      faults.push(`${one.requestId} was billed and not delivered`);
  }
  // A client that left before the response headers arrived does not know its request id, so these rows are matched by their
  // tokens.
  const nameless = seen.filter((one) => one.requestId === undefined && (one.left || wasKilled(one)));
  for (const row of left.values()) {
    const at = nameless.findIndex((one) => isOf(row, one));
    if (at === -1) faults.push(`${row.requestId} was billed, but nobody asked for it`);
    else nameless.splice(at, 1);
    billedNotReceived++;
  }
  return { faults, billedNotReceived, missing };
}

function isOf(row: UsageRow, one: Result): boolean {
  return row.completionTokens === one.words && row.promptTokens === promptTokensOf(one);
}
