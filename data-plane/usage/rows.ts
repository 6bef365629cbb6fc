/** Usage rows in their log, on the usage log and in the counters. */
import type { CounterEntry } from '../../schemas/records/limits.ts';
import { type Capacity, type UsageRow, usageRowSchema } from '../../schemas/records/usage.ts';
import { counterKey } from '../../shared/limits/counters.ts';
import { entriesOfPlainRow } from './plain-row.ts';
import { entriesOf, type VisitFacts } from './worker-messages.ts';

/** A row without the fields that are added when it is shipped. */
type NewUsage = Omit<UsageRow, 'v' | 'incarnation' | 'n'> & { readonly draw: Capacity };
export type RecordedUsage = NewUsage & VisitFacts;

/** A parsed text of the log. */
interface ReadUsage {
  /** Entries that it adds to the counters. */
  readonly entries: readonly CounterEntry[];
  /** The row as JSON; undefined if the text is not a row and takes no number. Every later build must decide alike. */
  readonly row: string | undefined;
  /** Reason for a refusal. Refused rows count nowhere. */
  readonly fault?: string;
}

/** Consecutive rows as JSON, from a position on; undefined for each text that is not a row. */
export interface ReadRows {
  readonly position: number;
  readonly rows: (string | undefined)[];
}

/** Splits a group into the texts of its rows. */
export function textsIn(rows: string): string[] {
  // JSON strings never contain a raw newline.
  return rows.slice(0, -2).split(',\n');
}

export function readUsage(text: string): ReadUsage {
  const plain = entriesOfPlainRow(text);
  if (plain !== undefined) return { entries: plain, row: text };
  const parsed = parsedRow(text);
  if (parsed === undefined) return { entries: [], row: undefined, fault: 'a row of usage is not JSON' };
  const { admittedMs, unfinished, ...usage } = parsed;
  const checked = usageRowSchema.safeParse({ v: 1, incarnation: anyId, n: 1, ...usage });
  const entries = entriesOf(usage, { admittedMs, unfinished });
  if (!checked.success) {
    const fault = `a row of usage is invalid at ${checked.error.issues[0]?.path.join('.')}`;
    return { entries, row: undefined, fault };
  }
  return { entries, row: unfinished ? undefined : JSON.stringify(usage) };
}

const anyId = '00000000-0000-4000-8000-000000000000';

/** Returns undefined if the text is not JSON, because a message must not quote it. */
function parsedRow(text: string): RecordedUsage | undefined {
  try {
    return JSON.parse(text) as RecordedUsage;
  } catch {
    return undefined;
  }
}

/** Sums of several rows, by account. */
export class Sums {
  readonly #sums = new Map<string, [subject: string, period: string, tokens: number, turns: number]>();

  add(entries: readonly CounterEntry[]): void {
    for (const [subject, period, tokens, turns] of entries) {
      const key = counterKey(subject, period);
      const sum = this.#sums.get(key);
      if (sum === undefined) this.#sums.set(key, [subject, period, tokens, turns]);
      else {
        sum[2] += tokens;
        sum[3] += turns;
      }
    }
  }

  all(): CounterEntry[] {
    return [...this.#sums.values()];
  }
}
