/**
 * The fold's view of `usage.db` within one transaction: reads through to the tables, collects changes, and writes them once
 * at the end. Nothing collected here outlives a failed transaction.
 */
import { hash as digest } from 'node:crypto';
import { visitorsSubject } from '../../schemas/limits.ts';
import { type ReadUsageRow, readUsageRow, type UsageRow } from '../../schemas/usage.ts';
import type { FoldState, Mark } from './usage-fold.ts';
import type { UsageStatements } from './usage-tables.ts';

interface Sum {
  readonly row: UsageRow & { readonly organisation: string; readonly period: string };
  promptTokens: number;
  completionTokens: number;
  requests: number;
}
interface Turns {
  turns: number;
  lastAtMs: number;
}

function hashOf(text: string): string {
  return digest('sha256', text, 'hex');
}

/** Hashed on demand: of all rows of a transaction only the last one's hash is stored. */
class FreshMark implements Mark {
  readonly n: number;
  readonly #text: string;

  constructor(n: number, text: string) {
    this.n = n;
    this.#text = text;
  }

  get hash(): string {
    return hashOf(this.#text);
  }
}

export class UsageState implements FoldState {
  /** Rows added to the totals, in the order of their application. */
  readonly applied: UsageRow[] = [];
  /** Whether totals of rows that name no replica have changed. */
  unnamedChanged = false;
  readonly #sql: UsageStatements;
  readonly #keepRows: boolean;
  readonly #marks = new Map<string, Mark>();
  readonly #sums = new Map<string, Sum>();
  readonly #turns = new Map<string, Turns>();
  /** Of pool rows that name a replica. */
  readonly #named = new Map<
    string,
    { readonly organisation: string; readonly period: string; tokens: number; requests: number }
  >();
  /** Rows parked, by incarnation. Shared with the store, which reads it again after a failed transaction. */
  readonly #parkedCounts: Map<string, number>;
  /** Incarnations with totals of which it is not known whether they name a replica. Shared in the same way. */
  readonly #unresolved: Set<string>;

  constructor(
    sql: UsageStatements,
    { parkedCounts, unresolved }: { parkedCounts: Map<string, number>; unresolved: Set<string> },
    keepRows: boolean,
  ) {
    this.#sql = sql;
    this.#parkedCounts = parkedCounts;
    this.#unresolved = unresolved;
    this.#keepRows = keepRows;
  }

  mark(incarnation: string): Mark | undefined {
    return this.#marks.get(incarnation) ?? this.#sql.mark.get(incarnation);
  }

  setMark(incarnation: string, n: number, text: string | null): void {
    this.#marks.set(incarnation, text === null ? { n, hash: null } : new FreshMark(n, text));
  }

  hash(text: string): string {
    return hashOf(text);
  }

  parked(incarnation: string, n: number): ReadUsageRow | undefined {
    const found = this.#sql.parked.get(incarnation, n);
    return found && readUsageRow(JSON.parse(found.body));
  }

  park({ incarnation, n, text }: ReadUsageRow): void {
    this.#sql.park.run(incarnation, n, text);
    this.#parkedCounts.set(incarnation, (this.#parkedCounts.get(incarnation) ?? 0) + 1);
  }

  unpark(incarnation: string, n: number): void {
    this.#sql.unpark.run(incarnation, n);
    const rest = (this.#parkedCounts.get(incarnation) ?? 0) - 1;
    if (rest > 0) this.#parkedCounts.set(incarnation, rest);
    else this.#parkedCounts.delete(incarnation);
  }

  parkedOf(incarnation: string): { count: number; lowest: number | null } {
    const count = this.#parkedCounts.get(incarnation) ?? 0;
    return { count, lowest: count > 0 ? (this.#sql.parkedLowest.get(incarnation)?.n ?? null) : null };
  }

  /** Each row of an incarnation names a replica, or none does: any one shows it of those that version 0.1 folded. */
  resolve({ row }: ReadUsageRow): void {
    if (row === undefined || !this.#unresolved.delete(row.incarnation)) return;
    if (row.replica === undefined) this.unnamedChanged = true;
    else this.#sql.nameUnresolved.run(row.incarnation);
    this.#sql.removeUnresolved.run(row.incarnation);
  }

  count(row: UsageRow): void {
    this.applied.push(row);
    const { organisation, period, visitor } = row;
    if (organisation !== null && period !== null) this.#addTokens({ ...row, organisation, period });
    else if (visitor !== undefined) {
      this.#addTurn(visitor, Date.parse(row.at));
      // The sum of all names none of them.
      this.#addTokens({ ...row, organisation: visitorsSubject, period: row.at.slice(0, 10) });
    }
    if (this.#keepRows) this.#sql.addRequest.run(organisation, period, JSON.stringify(row));
  }

  /** Writes the collected changes, in the caller's transaction with the position. */
  write(): void {
    for (const [incarnation, { n, hash }] of this.#marks) this.#sql.setMark.run(incarnation, n, hash);
    for (const { row, promptTokens, completionTokens, requests } of this.#sums.values()) {
      const { organisation, period, draw, model } = row;
      this.#sql.addTotal.run(organisation, period, draw, model, promptTokens, completionTokens, requests);
    }
    for (const { organisation, period, tokens, requests } of this.#named.values())
      this.#sql.addNamed.run(organisation, period, tokens, requests);
    for (const [visitor, { turns, lastAtMs }] of this.#turns)
      this.#sql.addTurns.run(visitor, turns, lastAtMs);
  }

  #addTokens(row: Sum['row']): void {
    const key = `${row.organisation} ${row.period} ${row.draw} ${row.model}`;
    const sum = this.#sums.get(key) ?? { row, promptTokens: 0, completionTokens: 0, requests: 0 };
    sum.promptTokens += row.promptTokens;
    sum.completionTokens += row.completionTokens;
    sum.requests++;
    this.#sums.set(key, sum);
    if (row.draw !== 'pool') return;
    if (row.replica === undefined) this.unnamedChanged = true;
    else this.#addNamed(row);
  }

  #addNamed({ organisation, period, promptTokens, completionTokens }: Sum['row']): void {
    const key = `${organisation} ${period}`;
    const sum = this.#named.get(key) ?? { organisation, period, tokens: 0, requests: 0 };
    sum.tokens += promptTokens + completionTokens;
    sum.requests++;
    this.#named.set(key, sum);
  }

  #addTurn(visitor: string, atMs: number): void {
    const turns = this.#turns.get(visitor) ?? { turns: 0, lastAtMs: 0 };
    turns.turns++;
    turns.lastAtMs = Math.max(turns.lastAtMs, atMs);
    this.#turns.set(visitor, turns);
  }
}
