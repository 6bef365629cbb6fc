/** Sums of usage as a file for spreadsheets. */
import { printable } from '../../schemas/printable.ts';

export interface DayUsage {
  readonly day: string;
  readonly model: string;
  /** Id of the key; empty where a gateway of an older version counted it. */
  readonly key: string;
  /** Empty where the control plane does not know the key. */
  readonly keyName: string;
  requests: number;
  promptTokens: number;
  completionTokens: number;
  /** Of each request that reported it. */
  readonly firstTokenMs: number[];
}

/** The value that this share of all values is not above; undefined where there is none. */
export function quantile(values: readonly number[], share: number): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(values.length * share) - 1)];
}

/**
 * Spreadsheets run what begins with these signs, also behind blanks, and at each start of a cell: which list separator a
 * spreadsheet takes is a setting of its user, and some ignore quotes.
 */
const formula = /(^|[,;|\t\r\n])([\s'"]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

/** A text as one cell, always in quotes. */
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
