/** Rows of usage as they come to the outbox, and what they add up to. */
import type { CounterEntry } from '../../schemas/limits.ts';
import type { Capacity, UsageRow } from '../../schemas/usage.ts';
import { counterKey, nothing, type Sum } from '../../shared/limits/counters.ts';
import type { UsageGroup } from './outbox-spool.ts';
import type { VisitFacts } from './worker-messages.ts';

/** A row without the fields that the outbox adds. */
type NewUsage = Omit<UsageRow, 'v' | 'incarnation' | 'n'> & { readonly draw: Capacity };
export type RecordedUsage = NewUsage & VisitFacts;

/** The text of each row. */
export function rowsIn({ rows }: UsageGroup): string[] {
  // JSON has no newline within a string.
  return rows.slice(0, -2).split(',\n');
}

/** Undefined where it is no JSON, whose text must not get into a message. */
export function parsedRow(text: string): RecordedUsage | undefined {
  try {
    return JSON.parse(text) as RecordedUsage;
  } catch {
    return undefined;
  }
}

/** Amounts of several rows, by account. */
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

  get(subject: string, period: string): Sum {
    const [, , tokens, turns] = this.#sums.get(counterKey(subject, period)) ?? [];
    return tokens === undefined || turns === undefined ? nothing : { tokens, turns };
  }

  all(): CounterEntry[] {
    return [...this.#sums.values()];
  }
}
