/** Converts usage rows between their forms in the row log, on the usage log and, as sums, in the counters. */
import type { CounterEntry } from '../../schemas/records/limits.ts';
import { type Capacity, type UsageRow, usageRowSchema } from '../../schemas/records/usage.ts';
import { counterKey } from '../../shared/limits/counters.ts';
import { entriesOfPlainRow } from './plain-row.ts';
import { entriesOf, type VisitFacts } from './worker-messages.ts';

/** Usage row as it is recorded, without the fields that are added when it is shipped. */
type NewUsage = Omit<UsageRow, 'v' | 'incarnation' | 'n'> & { readonly draw: Capacity };
export type RecordedUsage = NewUsage & VisitFacts;

/** Result of parsing one text of the row log. */
interface ReadUsage {
  /** Sums that the row adds to the counters. */
  readonly entries: readonly CounterEntry[];
  /** Row as JSON. Undefined if the text is not a row and so gets no number, which all later builds must decide alike. */
  readonly row: string | undefined;
  /** Reason why the row was refused. A refused row is not counted. */
  readonly fault?: string;
}

/** Consecutive texts of the row log from a position on: each is a row as JSON, or undefined if the text is not a row. */
export interface ReadRows {
  readonly position: number;
  readonly rows: (string | undefined)[];
}

export function textsIn(rows: string): string[] {
  // Split at line breaks, which JSON never contains within a string.
  return rows.slice(0, -2).split(',\n');
}

export function readUsage(text: string): ReadUsage {
  const plain = entriesOfPlainRow(text);
  if (plain !== undefined) return { entries: plain, row: text };
  const parsed = parsedRow(text);
  if (parsed === undefined) return { entries: [], row: undefined, fault: 'a usage row is not JSON' };
  const { admittedMs, unfinished, ...usage } = parsed;
  const checked = usageRowSchema.safeParse({ v: 1, incarnation: anyId, n: 1, ...usage });
  const entries = entriesOf(usage, { admittedMs, unfinished });
  if (!checked.success) {
    const fault = `a usage row is invalid at ${checked.error.issues[0]?.path.join('.')}`;
    return { entries, row: undefined, fault };
  }
  return { entries, row: unfinished ? undefined : JSON.stringify(usage) };
}

const anyId = '00000000-0000-4000-8000-000000000000';

/** Parses a row. Returns undefined if it is not JSON, without the parser's error message, which would quote the text. */
function parsedRow(text: string): RecordedUsage | undefined {
  try {
    return JSON.parse(text) as RecordedUsage;
  } catch {
    return undefined;
  }
}

/** Sums of several rows, with one entry per subject and period. */
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
