/** Sums of usage by hour, organisation, period, key, capacity and model. They are small, and outlive their rows. */
import { dayMs, hourMs } from '../../schemas/durations.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import { columnsSql, integer, type RowWith, text } from '../../shared/runtime/table-columns.ts';

const columns = {
  hour_sum: {
    hour: integer(), // of the completion, since 1970
    organisation: text(), // or `visitors:all`
    period: text(), // first day; of visitors the UTC day
    key: text(), // empty: none
    draw: text(), // pool | stack | own
    model: text(),
    prompt_tokens: integer(),
    completion_tokens: integer(),
    requests: integer(),
  },
} as const;

type Sum = RowWith<typeof columns.hour_sum>;
type HourSum = { -readonly [Name in keyof Sum]: Sum[Name] };

/** The key begins with the hour, so that the fold writes only to the last pages. */
export const hourSumSql = `
CREATE TABLE hour_sum (
  ${columnsSql(columns.hour_sum)}, PRIMARY KEY (hour, organisation, key, period, draw, model)
) STRICT, WITHOUT ROWID;
`;

export function prepareHourSums(db: Database) {
  return {
    addHourSum: prepare<never, [HourSum]>(
      db,
      `INSERT INTO hour_sum VALUES (@hour, @organisation, @period, @key, @draw, @model, @prompt_tokens, @completion_tokens,
         @requests) ON CONFLICT DO UPDATE SET
         prompt_tokens = prompt_tokens + excluded.prompt_tokens,
         completion_tokens = completion_tokens + excluded.completion_tokens,
         requests = requests + excluded.requests`,
    ),
  };
}

type HourSumStatements = ReturnType<typeof prepareHourSums>;

/** Organisation and period whose totals a row counts in. The sum of all visitors does not name any of them. */
export function ownerOf({ organisation, period, at }: UsageRow): { organisation: string; period: string } {
  if (organisation !== null && period !== null) return { organisation, period };
  return { organisation: visitorsSubject, period: at.slice(0, 10) };
}

export function hourOf(ms: number): number {
  return Math.floor(ms / hourMs);
}

/** First hour of a day, counted from 1970. */
export function firstHourOf(day: string): number {
  return hourOf(Date.parse(day));
}
export const hoursOfDay = dayMs / hourMs;

/** Sums that several rows add. */
export class HourSums {
  readonly #sums = new Map<string, HourSum>();

  add(row: UsageRow): void {
    const { organisation, period } = ownerOf(row);
    const { key = '', draw, model, promptTokens, completionTokens } = row;
    const hour = hourOf(Date.parse(row.at));
    const name = `${hour} ${organisation} ${period} ${key} ${draw} ${model}`;
    const sum = this.#sums.get(name);
    if (sum === undefined)
      this.#sums.set(name, {
        hour,
        organisation,
        period,
        key,
        draw,
        model,
        requests: 1,
        prompt_tokens: promptTokens,
        completion_tokens: completionTokens,
      });
    else {
      sum.prompt_tokens += promptTokens;
      sum.completion_tokens += completionTokens;
      sum.requests++;
    }
  }

  all(): HourSum[] {
    return [...this.#sums.values()];
  }
}

/** Writes the sums in the caller's transaction. */
export function writeHourSums({ addHourSum }: HourSumStatements, sums: Iterable<HourSum>): void {
  for (const sum of sums) addHourSum.run(sum);
}
