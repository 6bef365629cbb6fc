/**
 * Sums of usage by hour, organisation, period, key, capacity and model. The sums are small and are kept longer than the rows.
 */
import { dayMs, hourMs } from '../../schemas/durations.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { type Database, prepare } from '../../shared/runtime/sqlite.ts';
import { columnsSql, integer, type RowWith, text } from '../../shared/runtime/table-columns.ts';

const columns = {
  hour_sum: {
    hour: integer(), // hour of completion, counted from 1970
    organisation: text(), // id of the organisation, or `visitors:all` for all visitors
    period: text(), // first day of the billing period; for visitors the UTC day
    key: text(), // id of the key; empty if the request had none
    draw: text(), // capacity used: `pool`, `stack` or `own`
    model: text(),
    prompt_tokens: integer(),
    completion_tokens: integer(),
    requests: integer(),
  },
} as const;

type Sum = RowWith<typeof columns.hour_sum>;
type HourSum = { -readonly [Name in keyof Sum]: Sum[Name] };

/** SQL for the table of hourly sums. The primary key begins with the hour, so that the fold writes only to the last pages. */
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

/** Returns the organisation and period to which a row is charged. All visitors are charged to one subject, by UTC day. */
export function ownerOf({ organisation, period, at }: UsageRow): { organisation: string; period: string } {
  if (organisation !== null && period !== null) return { organisation, period };
  return { organisation: visitorsSubject, period: at.slice(0, 10) };
}

export function hourOf(ms: number): number {
  return Math.floor(ms / hourMs);
}

export function firstHourOf(day: string): number {
  return hourOf(Date.parse(day));
}
export const hoursOfDay = dayMs / hourMs;

/** Collects the sums of several rows before they are written. */
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

/** Adds the sums to the table of hourly sums, in the caller's transaction. */
export function writeHourSums({ addHourSum }: HourSumStatements, sums: Iterable<HourSum>): void {
  for (const sum of sums) addHourSum.run(sum);
}
