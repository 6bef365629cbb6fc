/** Formats usage sums as a CSV file for spreadsheet programs. */
import { printable } from '../../schemas/printable.ts';

export interface DayUsage {
  readonly day: string;
  readonly model: string;
  /** Id of the key. It is empty if a gateway of an older version counted the row. */
  readonly key: string;
  /** Name of the key. It is empty if the control plane does not know the key. */
  readonly keyName: string;
  requests: number;
  promptTokens: number;
  completionTokens: number;
  /** Times to the first token, one for each request that reported it. */
  readonly firstTokenMs: number[];
}

/** Returns the smallest value that is at least as large as this share of all values, or undefined if there are no values. */
export function quantile(values: readonly number[], share: number): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(values.length * share) - 1)];
}

/** Matches the start of a formula wherever a cell may start, because separators vary and some programs ignore quotes. */
const formula = /(^|[,;|\t\r\n])([\s'"]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

/** Formats a value as one cell. Text is always quoted. */
function cell(value: string | number): string {
  if (typeof value === 'number') return String(value);
  return `"${printable(value).replace(formula, `$1$2'`).replaceAll('"', '""')}"`;
}

const heads =
  'day,model,key_name,key,requests,prompt_tokens,completion_tokens,total_tokens,first_token_p50_ms,first_token_p95_ms';

export function toCsv(rows: readonly DayUsage[]): string {
  const lines = rows.map(
    ({ day, model, key, keyName, requests, promptTokens, completionTokens, firstTokenMs }) =>
      [
        ...[
          day,
          model,
          keyName,
          key,
          requests,
          promptTokens,
          completionTokens,
          promptTokens + completionTokens,
        ],
        ...[quantile(firstTokenMs, 0.5) ?? '', quantile(firstTokenMs, 0.95) ?? ''],
      ]
        .map((value) => (value === '' ? '' : cell(value)))
        .join(','),
  );
  return [heads, ...lines, ''].join('\r\n');
}
